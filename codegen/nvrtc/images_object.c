/*
 * An object file with a struct rt_images: ELF written by hand, since data
 * without code needs no compiler.  Strings and cubins are one section; structs
 * that point to them and to each other are another, with a relocation for each
 * pointer.
 */
#include "codegen/nvrtc/images.h"
#include "runtime/abi.h"

#include <elf.h>
#include <string.h>

#define CUBIN_ALIGN 16		/* the driver reads its ELF header in place */

enum section {
	NONE, BYTES, WORDS, RELOCATIONS, SYMBOLS, NAMES, SECTION_NAMES, STACK,
	NSECTIONS
};

struct object {
	struct arena *a;
	struct buf bytes, words, relocations;
};

/* ---- data ---- */

static void
align(struct buf *b, size_t to)
{
	while (b->n % to) {
		buf_putc(b, '\0');
	}
}

static uint64_t
put_bytes(struct object *o, const void *at, size_t n, size_t alignment)
{
	uint64_t where;

	align(&o->bytes, alignment);
	where = o->bytes.n;
	if (n) {
		buf_add(&o->bytes, at, n);
	}
	buf_putc(&o->bytes, '\0');
	return where;
}

static void
put_word(struct object *o, uint64_t v)
{
	buf_add(&o->words, (const char *)&v, sizeof v);
}

static void
put_pointer(struct object *o, enum section to, uint64_t offset)
{
	Elf64_Rela r = {
		.r_offset = o->words.n,
		.r_info = ELF64_R_INFO(to, R_X86_64_64),
		.r_addend = (Elf64_Sxword)offset
	};

	buf_add(&o->relocations, (const char *)&r, sizeof r);
	put_word(o, 0);
}

/* NULL stays NULL. */
static void
put_string(struct object *o, const char *s)
{
	if (s) {
		put_pointer(o, BYTES, put_bytes(o, s, strlen(s), 1));
	} else {
		put_word(o, 0);
	}
}

/* struct rt_image */
static void
put_image(struct object *o, const struct cg_images *x, uint32_t i)
{
	const struct cg_source *s = &x->make.sources[i];
	const struct cg_image *m = x->at ? &x->at[i] : NULL;

	put_string(o, s->name);
	put_string(o, s->text);
	if (m) {
		put_pointer(o, BYTES, put_bytes(o, m->cubin,
			(size_t)m->cubin_bytes, CUBIN_ALIGN));
		put_word(o, (uint64_t)m->cubin_bytes);
		put_string(o, m->ptx);
	} else {
		put_word(o, 0);
		put_word(o, 0);
		put_word(o, 0);
	}
}

/* Writes struct rt_images and what it points to; returns its offset. */
static uint64_t
put_images(struct object *o, const struct cg_images *x)
{
	uint64_t texts, self;
	uint32_t i;

	for (i = 0; i < x->make.nsources; i++) {
		put_image(o, x, i);
	}
	texts = o->words.n;
	for (i = 0; i < x->make.ntexts; i++) {
		put_string(o, x->make.texts[i].name);
		put_string(o, x->make.texts[i].text);
	}
	self = o->words.n;
	put_word(o, x->make.nsources);
	put_pointer(o, WORDS, 0);
	put_word(o, x->make.ntexts);
	put_pointer(o, WORDS, texts);
	put_string(o, x->made_by);
	if (o->words.n - self != sizeof(struct rt_images)) {
		die("struct rt_images is not what is written");
	}
	return self;
}

/* ---- the file ---- */

static const struct {
	const char *name;
	uint32_t type;
	uint64_t flags, alignment, entry;
	uint32_t link, info;
} sections[NSECTIONS] = {
	[NONE] = { "", SHT_NULL, 0, 0, 0, 0, 0 },
	[BYTES] = { ".rodata", SHT_PROGBITS, SHF_ALLOC, CUBIN_ALIGN, 0, 0, 0 },
	[WORDS] = { ".data.rel.ro", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, 8, 0,
		    0, 0 },
	[RELOCATIONS] = { ".rela.data.rel.ro", SHT_RELA, SHF_INFO_LINK, 8,
			  sizeof(Elf64_Rela), SYMBOLS, WORDS },
	/* its info: the first global symbol */
	[SYMBOLS] = { ".symtab", SHT_SYMTAB, 0, 8, sizeof(Elf64_Sym), NAMES,
		      WORDS + 1 },
	[NAMES] = { ".strtab", SHT_STRTAB, 0, 1, 0, 0, 0 },
	[SECTION_NAMES] = { ".shstrtab", SHT_STRTAB, 0, 1, 0, 0, 0 },
	[STACK] = { ".note.GNU-stack", SHT_PROGBITS, 0, 1, 0, 0, 0 }
};

/* Symbols of sections BYTES and WORDS, with the sections' numbers, and the
 * global one. */
static void
put_symbols(uint64_t self, struct buf *out)
{
	Elf64_Sym s[WORDS + 2] = {
		[BYTES] = { .st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION),
			    .st_shndx = BYTES },
		[WORDS] = { .st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION),
			    .st_shndx = WORDS },
		[WORDS + 1] = {
			.st_name = 1,
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
			.st_shndx = WORDS, .st_value = self,
			.st_size = sizeof(struct rt_images)
		}
	};

	buf_add(out, (const char *)s, sizeof s);
}

static void
put_header(uint64_t table, struct buf *out)
{
	Elf64_Ehdr h = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
			     ELFDATA2LSB, EV_CURRENT, ELFOSABI_SYSV },
		.e_type = ET_REL, .e_machine = EM_X86_64,
		.e_version = EV_CURRENT, .e_shoff = table,
		.e_ehsize = sizeof h, .e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = NSECTIONS, .e_shstrndx = SECTION_NAMES
	};

	memcpy(out->at, &h, sizeof h);
}

/* Contents after the header, then the table of sections. */
static void
put_file(const struct buf *contents, struct buf *out)
{
	static const Elf64_Ehdr none;
	Elf64_Shdr table[NSECTIONS] = { 0 };
	uint32_t i, name = 0;

	buf_add(out, (const char *)&none, sizeof none);
	for (i = 1; i < NSECTIONS; i++) {
		align(out, sections[i].alignment);
		name += (uint32_t)strlen(sections[i - 1].name) + 1;
		table[i] = (Elf64_Shdr){
			.sh_name = name, .sh_type = sections[i].type,
			.sh_flags = sections[i].flags,
			.sh_offset = out->n, .sh_size = contents[i].n,
			.sh_link = sections[i].link,
			.sh_info = sections[i].info,
			.sh_addralign = sections[i].alignment,
			.sh_entsize = sections[i].entry
		};
		if (contents[i].n) {
			buf_add(out, contents[i].at, contents[i].n);
		}
	}
	align(out, 8);
	put_header(out->n, out);
	buf_add(out, (const char *)table, sizeof table);
}

void
cg_images_object(const struct cg_images *x, const char *name,
		 struct buf *out)
{
	struct arena *a = out->arena;
	struct buf contents[NSECTIONS];
	struct object o = { .a = a };
	uint64_t self;
	uint32_t i;

	for (i = 0; i < NSECTIONS; i++) {
		buf_init(&contents[i], a);
	}
	for (i = 0; i < NSECTIONS; i++) {
		buf_add(&contents[SECTION_NAMES], sections[i].name,
			strlen(sections[i].name) + 1);
	}
	buf_init(&o.bytes, a);
	buf_init(&o.words, a);
	buf_init(&o.relocations, a);
	self = put_images(&o, x);
	contents[BYTES] = o.bytes;
	contents[WORDS] = o.words;
	contents[RELOCATIONS] = o.relocations;
	put_symbols(self, &contents[SYMBOLS]);
	buf_putc(&contents[NAMES], '\0');
	buf_add(&contents[NAMES], name, strlen(name) + 1);
	put_file(contents, out);
}
