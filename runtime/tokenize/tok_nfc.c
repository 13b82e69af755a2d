/*
 * Normalization form C (UAX #15).  Characters that neither change nor compose
 * with what comes before them are copied; what lies between two of these is
 * decomposed, ordered and composed.
 */
#include "runtime/tokenize/tok_unicode.h"

#include <stdlib.h>
#include <string.h>

enum {
	HANGUL = 0xac00, NHANGUL = 11172,
	LEAD = 0x1100, VOWEL = 0x1161, TAIL = 0x11a7,
	NLEAD = 19, NVOWEL = 21, NTAIL = 28,
	BEGIN = 0x300,	/* characters below are what they are */
};

/* What composes with what. */
struct nfc_composite {
	uint32_t first, second, whole;
};

struct rt_nfc {
	struct rt_alloc alloc;
	struct nfc_composite *composites;
	size_t n;
	/* whether a character may change, or have its neighbours changed */
	unsigned char moves[RT_UNICODE_END];
};

/* Characters of the stretch that is being normalized. */
struct nfc_run {
	const struct rt_nfc *f;
	uint32_t *at;
	size_t n, cap;
};

/* ---- tables ----------------------------------------------------------- */

static unsigned
class_of(uint32_t c)
{
	size_t lo = 0, hi = rt_unicode_nclasses, mid;

	if (c < rt_unicode_classes[0] >> 8) {
		return 0;
	}
	while (hi - lo > 1) {
		mid = lo + (hi - lo) / 2;
		if (rt_unicode_classes[mid] >> 8 <= c) {
			lo = mid;
		} else {
			hi = mid;
		}
	}
	return rt_unicode_classes[lo] & 0xff;
}

/* The row of a character that decomposes, or NULL. */
static const uint32_t *
pair_of(uint32_t c)
{
	size_t lo = 0, hi = rt_unicode_npairs, mid;

	while (hi - lo > 1) {
		mid = lo + (hi - lo) / 2;
		if (rt_unicode_pairs[3 * mid] <= c) {
			lo = mid;
		} else {
			hi = mid;
		}
	}
	return rt_unicode_pairs[3 * lo] == c ? rt_unicode_pairs + 3 * lo
					     : NULL;
}

static int
compare_composites(const void *a, const void *b)
{
	const struct nfc_composite *x = a, *y = b;

	if (x->first != y->first) {
		return x->first < y->first ? -1 : 1;
	}
	return x->second < y->second ? -1 : x->second > y->second;
}

static void
fill(struct rt_nfc *f)
{
	size_t i;
	uint32_t c, end;

	for (i = 0; i < rt_unicode_npairs; i++) {
		const uint32_t *p = rt_unicode_pairs + 3 * i;

		if (p[1] & RT_UNICODE_APART) {
			f->moves[p[0]] = 1;
		} else {
			f->composites[f->n++] = (struct nfc_composite){
				p[1], p[2], p[0] };
			f->moves[p[2]] = 1;
		}
	}
	qsort(f->composites, f->n, sizeof *f->composites, compare_composites);
	for (i = 0; i < rt_unicode_nclasses; i++) {
		end = i + 1 < rt_unicode_nclasses
			? rt_unicode_classes[i + 1] >> 8 : RT_UNICODE_END;
		for (c = rt_unicode_classes[i] >> 8; c < end &&
		     rt_unicode_classes[i] & 0xff; c++) {
			f->moves[c] = 1;
		}
	}
	memset(f->moves + VOWEL, 1, NVOWEL);
	memset(f->moves + TAIL + 1, 1, NTAIL - 1);
}

struct rt_nfc *
rt_nfc_open(const struct rt_alloc *alloc)
{
	struct rt_nfc *f = rt_resize(alloc, NULL, 1, sizeof *f);

	if (!f) {
		return NULL;
	}
	memset(f, 0, sizeof *f);
	f->alloc = *alloc;
	f->composites = rt_resize(alloc, NULL, rt_unicode_npairs,
				  sizeof *f->composites);
	if (!f->composites) {
		rt_nfc_free(f);
		return NULL;
	}
	fill(f);
	return f;
}

void
rt_nfc_free(struct rt_nfc *f)
{
	if (f) {
		struct rt_alloc a = f->alloc;

		rt_release(&a, f->composites);
		rt_release(&a, f);
	}
}

bool
rt_nfc_starts(const struct rt_nfc *f, uint32_t c)
{
	return !f->moves[c];
}

/* ---- a stretch -------------------------------------------------------- */

static bool
put(struct nfc_run *r, uint32_t c)
{
	uint32_t *more;

	if (r->n == r->cap) {
		more = rt_resize(&r->f->alloc, r->at, r->cap ? 2 * r->cap : 64,
				 sizeof *r->at);
		if (!more) {
			return false;
		}
		r->at = more;
		r->cap = r->cap ? 2 * r->cap : 64;
	}
	r->at[r->n++] = c;
	return true;
}

/* A decomposition begins with a character that may decompose, too. */
static bool
decompose(struct nfc_run *r, uint32_t c)
{
	uint32_t tail[8];
	const uint32_t *p;
	size_t n = 0;
	bool ok;

	if (c - HANGUL < NHANGUL) {
		c -= HANGUL;
		ok = put(r, LEAD + c / (NVOWEL * NTAIL)) &&
		     put(r, VOWEL + c / NTAIL % NVOWEL);
		return ok && (c % NTAIL == 0 || put(r, TAIL + c % NTAIL));
	}
	while (n < 8 && (p = pair_of(c)) != NULL) {
		if (p[2]) {
			tail[n++] = p[2];
		}
		c = p[1] & ~RT_UNICODE_APART;
	}
	ok = put(r, c);
	while (n > 0 && ok) {
		ok = put(r, tail[--n]);
	}
	return ok;
}

/* Orders marks by class, those of one class as they were. */
static bool
order(struct nfc_run *r, size_t from, size_t to)
{
	size_t count[257] = { 0 }, i, n = to - from;
	uint32_t *copy;

	if (n < 2) {
		return true;
	}
	copy = rt_resize(&r->f->alloc, NULL, n, sizeof *copy);
	if (!copy) {
		return false;
	}
	memcpy(copy, r->at + from, n * sizeof *copy);
	for (i = 0; i < n; i++) {
		count[class_of(copy[i]) + 1]++;
	}
	for (i = 1; i < 257; i++) {
		count[i] += count[i - 1];
	}
	for (i = 0; i < n; i++) {
		r->at[from + count[class_of(copy[i])]++] = copy[i];
	}
	rt_release(&r->f->alloc, copy);
	return true;
}

static bool
order_all(struct nfc_run *r)
{
	size_t i, from = 0;

	for (i = 0; i < r->n; i++) {
		if (class_of(r->at[i]) == 0) {
			if (!order(r, from, i)) {
				return false;
			}
			from = i + 1;
		}
	}
	return order(r, from, r->n);
}

/* What two characters make, or 0. */
static uint32_t
composite(const struct rt_nfc *f, uint32_t a, uint32_t b)
{
	struct nfc_composite key = { a, b, 0 }, *hit;

	if (a - LEAD < NLEAD && b - VOWEL < NVOWEL) {
		return HANGUL + ((a - LEAD) * NVOWEL + b - VOWEL) * NTAIL;
	}
	if (a - HANGUL < NHANGUL && (a - HANGUL) % NTAIL == 0 &&
	    b > TAIL && b < TAIL + NTAIL) {
		return a + b - TAIL;
	}
	hit = bsearch(&key, f->composites, f->n, sizeof key,
		      compare_composites);
	return hit ? hit->whole : 0;
}

/* A mark composes with its starter unless one of its class, or a starter that
 * stays, is between them. */
static void
compose(struct nfc_run *r)
{
	size_t starter = SIZE_MAX, n = 0, i;
	unsigned last = 0;

	for (i = 0; i < r->n; i++) {
		uint32_t c = r->at[i], whole = 0;
		unsigned class = class_of(c);

		if (starter != SIZE_MAX &&
		    (starter == n - 1 || (last < class && last != 0))) {
			whole = composite(r->f, r->at[starter], c);
		}
		if (whole) {
			r->at[starter] = whole;
			continue;
		}
		if (class == 0) {
			starter = n;
		}
		last = class;
		r->at[n++] = c;
	}
	r->n = n;
}

/* ---- text ------------------------------------------------------------- */

/* Bytes from s on whose characters stay. */
static size_t
quick(const struct rt_nfc *f, const char *s, size_t n, size_t *last)
{
	size_t at = 0, len;

	*last = 0;
	while (at < n) {
		if ((unsigned char)s[at] < 0xcc) {
			len = (unsigned char)s[at] < 0x80 ? 1 : 2;
		} else if (f->moves[rt_utf8_get(s + at, &len)]) {
			return at;
		}
		*last = at;
		at += len;
	}
	return n;
}

bool
rt_nfc_is_quick(const struct rt_nfc *f, const char *s, size_t n)
{
	size_t last;

	return quick(f, s, n, &last) == n;
}

/* One stretch: up to the second character that stays. */
static bool
read_stretch(struct nfc_run *r, const char *s, size_t n, size_t *done)
{
	size_t at = 0, len;
	bool ok = true;

	r->n = 0;
	while (at < n && ok) {
		uint32_t c = rt_utf8_get(s + at, &len);

		if (at > 0 && !r->f->moves[c]) {
			break;
		}
		ok = decompose(r, c);
		at += len;
	}
	*done = at;
	return ok;
}

enum rt_status
rt_nfc_add(const struct rt_nfc *f, const char *s, size_t n,
	   struct rt_bytes *out)
{
	struct nfc_run r = { .f = f };
	size_t at = 0, len, last, i;
	bool ok = true;

	while (at < n && ok) {
		len = quick(f, s + at, n - at, &last);
		if (len == n - at) {
			ok = rt_bytes_add(&f->alloc, out, s + at, len);
			break;
		}
		ok = rt_bytes_add(&f->alloc, out, s + at, last);
		at += last;
		ok = ok && read_stretch(&r, s + at, n - at, &len) &&
		     order_all(&r) &&
		     rt_bytes_reserve(&f->alloc, out, 4 * r.n + 4);
		if (ok) {
			compose(&r);
		}
		for (i = 0; i < r.n && ok; i++) {
			out->n += rt_utf8_put(r.at[i], out->at + out->n);
		}
		at += len;
	}
	rt_release(&f->alloc, r.at);
	return ok ? RT_OK : RT_NOMEM;
}
