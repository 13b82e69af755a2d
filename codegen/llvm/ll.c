/*
 * The one file that includes LLVM's headers.  The library is loaded when code
 * is generated: planning does not need it, and mapping it takes ten times as
 * long as planning a model.  A function that the library lacks is an error
 * then.
 */
#include "config.h"

#include "codegen/llvm/ll.h"
#include "codegen/llvm/ll_cpu.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

struct ll_api {
#define FN(name) __typeof__(&LLVM##name) name;
#include "codegen/llvm/ll.def"
#undef FN
};

struct ll {
	struct ll_api f;
	struct arena *a;
	const char *file;	/* the library */
	const char *cpu, *features;
	bool quick;
	bool wide;		/* 512 bits */
	LLVMContextRef c;
	LLVMModuleRef m;
	LLVMBuilderRef b;
	LLVMTargetMachineRef tm;
	/* data that were made before, by their content */
	struct intern texts, words;
	VEC(LLVMValueRef) text_data, words_data;
};

static LLVMValueRef
in(struct ll_value *v)
{
	return (LLVMValueRef)(void *)v;
}

static struct ll_value *
out(LLVMValueRef v)
{
	return (struct ll_value *)(void *)v;
}

static LLVMBasicBlockRef
in_block(struct ll_block *b)
{
	return (LLVMBasicBlockRef)(void *)b;
}

static struct ll_block *
out_block(LLVMBasicBlockRef b)
{
	return (struct ll_block *)(void *)b;
}

/* ---- modules ---- */

static bool
load(struct ll *l, const char **why)
{
	const char *other = getenv("LLMC_LIBLLVM");
	const char *file = other && *other ? other : CONFIG_LLVM_LIBRARY;
	void *lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	/* ISO C has no cast from dlsym's pointer to a function's. */
	union {
		void *object;
		void (*function)(void);
	} s;

	l->file = file;
	if (!lib) {
		*why = arena_printf(l->a, "LLVM cannot be loaded: %s; "
				    "LLMC_LIBLLVM names another file",
				    dlerror());
		return false;
	}
#define FN(name) \
	s.object = dlsym(lib, "LLVM" #name); \
	if (!s.object) { \
		*why = arena_printf(l->a, "%s has no LLVM%s", file, #name); \
		return false; \
	} \
	l->f.name = (__typeof__(&LLVM##name))s.function;
#include "codegen/llvm/ll.def"
#undef FN
	return true;
}

static void
read_host_cpu(struct ll *l)
{
	char *cpu = l->f.GetHostCPUName();
	char *features = l->f.GetHostCPUFeatures();

	l->cpu = arena_printf(l->a, "%s", cpu);
	l->features = arena_printf(l->a, "%s", features);
	l->f.DisposeMessage(cpu);
	l->f.DisposeMessage(features);
}

/* *more_features: those that LLVM needs beside the name. */
static bool
find_cpu(struct ll *l, const char *cpu, const char **more_features,
	 const char **why)
{
	const char *more, *name = ll_cpu_split(l->a, cpu, &more), *feature;
	const struct ll_cpu_row *row = ll_cpu_find(name);

	*more_features = "";
	if (strcmp(name, "native") == 0) {
		read_host_cpu(l);
		*more_features = l->features;
	} else if (row) {
		l->cpu = row->name;
		l->features = row->features;
	} else {
		*why = arena_printf(l->a, "no CPU is called `%s`", name);
		return false;
	}
	while ((feature = ll_cpu_next(l->a, &more)) != NULL) {
		l->features = arena_printf(l->a, "%s +%s", l->features,
					   feature);
		*more_features = arena_printf(l->a, "%s%s+%s", *more_features,
					      **more_features ? "," : "",
					      feature);
	}
	l->cpu = ll_cpu_of_llvm(l->cpu, l->features);
	return true;
}

static bool
set_machine(struct ll *l, const char *cpu, bool quick, const char **why)
{
	static const char triple[] = "x86_64-pc-linux-gnu";
	LLVMTargetDataRef layout;
	LLVMTargetRef target;
	const char *more_features;
	char *error = NULL;

	if (!find_cpu(l, cpu, &more_features, why)) {
		return false;
	}
	l->f.InitializeX86TargetInfo();
	l->f.InitializeX86Target();
	l->f.InitializeX86TargetMC();
	l->f.InitializeX86AsmPrinter();
	if (l->f.GetTargetFromTriple(triple, &target, &error)) {
		*why = arena_printf(l->a, "LLVM: %s", error);
		l->f.DisposeMessage(error);
		return false;
	}
	l->wide = ll_cpu_has(l->features, "avx512f");
	l->tm = l->f.CreateTargetMachine(target, triple, l->cpu, more_features,
					 quick ? LLVMCodeGenLevelNone
					       : LLVMCodeGenLevelDefault,
					 LLVMRelocPIC,
					 LLVMCodeModelDefault);
	l->f.SetTarget(l->m, triple);
	layout = l->f.CreateTargetDataLayout(l->tm);
	l->f.SetModuleDataLayout(l->m, layout);
	l->f.DisposeTargetData(layout);
	return true;
}

struct ll *
ll_new(struct arena *a, const char *cpu, bool quick, const char **why)
{
	struct ll *l = arena_alloc(a, sizeof *l);

	l->a = a;
	l->quick = quick;
	intern_init(&l->texts, a);
	intern_init(&l->words, a);
	if (!load(l, why)) {
		return NULL;
	}
	l->c = l->f.ContextCreate();
	l->m = l->f.ModuleCreateWithNameInContext("plan", l->c);
	l->b = l->f.CreateBuilderInContext(l->c);
	if (!set_machine(l, cpu, quick, why)) {
		ll_free(l);
		return NULL;
	}
	return l;
}

void
ll_free(struct ll *l)
{
	l->f.DisposeBuilder(l->b);
	l->f.DisposeModule(l->m);
	if (l->tm) {
		l->f.DisposeTargetMachine(l->tm);
	}
	l->f.ContextDispose(l->c);
}

struct arena *
ll_arena(struct ll *l)
{
	return l->a;
}

const char *
ll_cpu(const struct ll *l)
{
	return l->cpu;
}

const char *
ll_features(const struct ll *l)
{
	return l->features;
}

bool
ll_has(const struct ll *l, const char *feature)
{
	return ll_cpu_has(l->features, feature);
}

static uint32_t
bits_of(enum ll_base base)
{
	static const uint8_t bits[] = {
		[LL_VOID] = 0, [LL_I1] = 1, [LL_I8] = 8, [LL_I16] = 16,
		[LL_I32] = 32, [LL_I64] = 64, [LL_F16] = 16, [LL_BF16] = 16,
		[LL_F32] = 32, [LL_F64] = 64, [LL_PTR] = 64
	};

	return bits[base];
}

uint32_t
ll_lanes(const struct ll *l, enum ll_base base)
{
	uint32_t bits = l->wide ? 512 : ll_has(l, "avx2") ? 256 : 128;

	return bits / bits_of(base);
}

const char *
ll_settings(struct ll *l)
{
	unsigned major, minor, patch;

	l->f.GetVersion(&major, &minor, &patch);
	return arena_printf(l->a, "llmc %s, LLVM %u.%u.%u of %s, %s, %s, "
			    "%s", PACKAGE_VERSION, major, minor, patch,
			    l->file, l->cpu, l->features,
			    l->quick ? "quick" : "whole");
}

void
ll_print(struct ll *l, struct buf *to)
{
	char *text = l->f.PrintModuleToString(l->m);

	buf_puts(to, text);
	l->f.DisposeMessage(text);
}

bool
ll_verify(struct ll *l, const char **why)
{
	char *error = NULL;
	bool bad = l->f.VerifyModule(l->m, LLVMReturnStatusAction, &error);

	if (bad) {
		*why = arena_printf(l->a, "%s", error);
	}
	l->f.DisposeMessage(error);
	return !bad;
}

bool
ll_passes(struct ll *l, const char *passes, const char **why)
{
	LLVMPassBuilderOptionsRef o = l->f.CreatePassBuilderOptions();
	LLVMErrorRef error;

	l->f.PassBuilderOptionsSetLoopVectorization(o, 0);
	l->f.PassBuilderOptionsSetSLPVectorization(o, 0);
	l->f.PassBuilderOptionsSetLoopUnrolling(o, 0);
	error = l->f.RunPasses(l->m, passes, l->tm, o);
	l->f.DisposePassBuilderOptions(o);
	if (error) {
		char *text = l->f.GetErrorMessage(error);

		*why = arena_printf(l->a, "%s", text);
		l->f.DisposeErrorMessage(text);
	}
	return !error;
}

bool
ll_object(struct ll *l, struct buf *to, const char **why)
{
	LLVMMemoryBufferRef mem;
	char *error = NULL;

	if (l->f.TargetMachineEmitToMemoryBuffer(l->tm, l->m, LLVMObjectFile,
						 &error, &mem)) {
		*why = arena_printf(l->a, "%s", error);
		l->f.DisposeMessage(error);
		return false;
	}
	buf_add(to, l->f.GetBufferStart(mem), l->f.GetBufferSize(mem));
	l->f.DisposeMemoryBuffer(mem);
	return true;
}

/* ---- types ---- */

static LLVMTypeRef
base_type(struct ll *l, enum ll_base base)
{
	switch (base) {
	case LL_VOID:
		return l->f.VoidTypeInContext(l->c);
	case LL_F16:
		return l->f.HalfTypeInContext(l->c);
	case LL_BF16:
		return l->f.BFloatTypeInContext(l->c);
	case LL_F32:
		return l->f.FloatTypeInContext(l->c);
	case LL_F64:
		return l->f.DoubleTypeInContext(l->c);
	case LL_PTR:
		return l->f.PointerTypeInContext(l->c, 0);
	default:
		return l->f.IntTypeInContext(l->c, bits_of(base));
	}
}

static LLVMTypeRef
type_of(struct ll *l, struct ll_type t)
{
	LLVMTypeRef base = base_type(l, (enum ll_base)t.base);

	return t.lanes > 1 ? l->f.VectorType(base, t.lanes) : base;
}

struct ll_type
ll_typeof(struct ll *l, struct ll_value *v)
{
	LLVMTypeRef t = l->f.TypeOf(in(v));
	uint32_t lanes = 1;

	if (l->f.GetTypeKind(t) == LLVMVectorTypeKind) {
		lanes = l->f.GetVectorSize(t);
		t = l->f.GetElementType(t);
	}
	switch (l->f.GetTypeKind(t)) {
	case LLVMIntegerTypeKind:
		switch (l->f.GetIntTypeWidth(t)) {
		case 1: return ll_type(LL_I1, lanes);
		case 8: return ll_type(LL_I8, lanes);
		case 16: return ll_type(LL_I16, lanes);
		case 32: return ll_type(LL_I32, lanes);
		default: return ll_type(LL_I64, lanes);
		}
	case LLVMHalfTypeKind: return ll_type(LL_F16, lanes);
	case LLVMBFloatTypeKind: return ll_type(LL_BF16, lanes);
	case LLVMFloatTypeKind: return ll_type(LL_F32, lanes);
	case LLVMDoubleTypeKind: return ll_type(LL_F64, lanes);
	case LLVMPointerTypeKind: return ll_type(LL_PTR, lanes);
	default: return ll_type(LL_VOID, 1);
	}
}

static bool
is_float(struct ll_type t)
{
	return t.base >= LL_F16 && t.base <= LL_F64;
}

/* ---- functions ---- */

#define MAX_PARAMS 64

static LLVMTypeRef
signature(struct ll *l, struct ll_type ret, const struct ll_type *params,
	  uint32_t n)
{
	LLVMTypeRef types[MAX_PARAMS];
	uint32_t i;

	if (n > MAX_PARAMS) {
		die("%u parameters", n);
	}
	for (i = 0; i < n; i++) {
		types[i] = type_of(l, params[i]);
	}
	return l->f.FunctionType(type_of(l, ret), types, n, 0);
}

static void
text_attribute(struct ll *l, LLVMValueRef f, const char *key,
	       const char *value)
{
	l->f.AddAttributeAtIndex(f, LLVMAttributeFunctionIndex,
		l->f.CreateStringAttribute(l->c, key, (unsigned)strlen(key),
					   value, (unsigned)strlen(value)));
}

static void
attribute(struct ll *l, LLVMValueRef f, LLVMAttributeIndex at,
	  const char *name)
{
	unsigned kind = l->f.GetEnumAttributeKindForName(name, strlen(name));

	l->f.AddAttributeAtIndex(f, at,
				 l->f.CreateEnumAttribute(l->c, kind, 0));
}

struct ll_value *
ll_func(struct ll *l, const char *name, struct ll_type ret,
	const struct ll_type *params, uint32_t n, bool shown)
{
	LLVMValueRef f = l->f.AddFunction(l->m, name,
					  signature(l, ret, params, n));

	l->f.SetLinkage(f, shown ? LLVMExternalLinkage : LLVMInternalLinkage);
	attribute(l, f, LLVMAttributeFunctionIndex, "nounwind");
	if (l->wide) {
		/* on some CPUs LLVM would split such vectors in two */
		text_attribute(l, f, "prefer-vector-width", "512");
		text_attribute(l, f, "min-legal-vector-width", "512");
	}
	l->f.PositionBuilderAtEnd(l->b,
		l->f.AppendBasicBlockInContext(l->c, f, "entry"));
	return out(f);
}

struct ll_value *
ll_param(struct ll *l, struct ll_value *func, uint32_t i)
{
	return out(l->f.GetParam(in(func), i));
}

struct ll_value *
ll_extern(struct ll *l, const char *name, struct ll_type ret,
	  const struct ll_type *params, uint32_t n)
{
	LLVMValueRef f = l->f.GetNamedFunction(l->m, name);

	return out(f ? f : l->f.AddFunction(l->m, name,
					    signature(l, ret, params, n)));
}

void
ll_noalias(struct ll *l, struct ll_value *func, uint32_t param)
{
	attribute(l, in(func), param + 1, "noalias");
}

void
ll_apart(struct ll *l, struct ll_value *func)
{
	attribute(l, in(func), LLVMAttributeFunctionIndex, "noinline");
}

struct ll_block *
ll_block(struct ll *l, struct ll_value *func, const char *name)
{
	LLVMValueRef f = func ? in(func)
		: l->f.GetBasicBlockParent(l->f.GetInsertBlock(l->b));

	return out_block(l->f.AppendBasicBlockInContext(l->c, f, name));
}

void
ll_at(struct ll *l, struct ll_block *b)
{
	l->f.PositionBuilderAtEnd(l->b, in_block(b));
}

struct ll_block *
ll_here(struct ll *l)
{
	return out_block(l->f.GetInsertBlock(l->b));
}

void
ll_jump(struct ll *l, struct ll_block *to)
{
	l->f.BuildBr(l->b, in_block(to));
}

void
ll_branch(struct ll *l, struct ll_value *cond, struct ll_block *yes,
	  struct ll_block *no)
{
	l->f.BuildCondBr(l->b, in(cond), in_block(yes), in_block(no));
}

void
ll_return(struct ll *l, struct ll_value *v)
{
	if (v) {
		l->f.BuildRet(l->b, in(v));
	} else {
		l->f.BuildRetVoid(l->b);
	}
}

struct ll_value *
ll_phi(struct ll *l, struct ll_type t)
{
	return out(l->f.BuildPhi(l->b, type_of(l, t), ""));
}

void
ll_phi_add(struct ll *l, struct ll_value *phi, struct ll_value *v,
	   struct ll_block *from)
{
	LLVMValueRef value = in(v);
	LLVMBasicBlockRef block = in_block(from);

	l->f.AddIncoming(in(phi), &value, &block, 1);
}

static struct ll_value *
call(struct ll *l, LLVMTypeRef type, LLVMValueRef f,
     struct ll_value *const *args, uint32_t n)
{
	LLVMValueRef values[MAX_PARAMS];
	uint32_t i;

	if (n > MAX_PARAMS) {
		die("%u arguments", n);
	}
	for (i = 0; i < n; i++) {
		values[i] = in(args[i]);
	}
	return out(l->f.BuildCall2(l->b, type, f, values, n, ""));
}

struct ll_value *
ll_call(struct ll *l, struct ll_value *func, struct ll_value *const *args,
	uint32_t n)
{
	return call(l, l->f.GlobalGetValueType(in(func)), in(func), args, n);
}

struct ll_value *
ll_call_ptr(struct ll *l, struct ll_value *ptr, struct ll_type ret,
	    const struct ll_type *params, struct ll_value *const *args,
	    uint32_t n)
{
	return call(l, signature(l, ret, params, n), in(ptr), args, n);
}

/* ---- constants and data ---- */

static struct ll_value *
constant(struct ll *l, LLVMValueRef v, uint32_t lanes)
{
	LLVMValueRef all[LL_CARRY];
	uint32_t i;

	if (lanes <= 1) {
		return out(v);
	}
	if (lanes > LL_CARRY) {
		die("%u lanes", lanes);
	}
	for (i = 0; i < lanes; i++) {
		all[i] = v;
	}
	return out(l->f.ConstVector(all, lanes));
}

struct ll_value *
ll_int(struct ll *l, struct ll_type t, int64_t v)
{
	LLVMTypeRef base = base_type(l, (enum ll_base)t.base);

	return constant(l, l->f.ConstInt(base, (unsigned long long)v, 1),
			t.lanes);
}

struct ll_value *
ll_num(struct ll *l, struct ll_type t, double v)
{
	return constant(l, l->f.ConstReal(base_type(l, (enum ll_base)t.base),
					  v), t.lanes);
}

struct ll_value *
ll_zero(struct ll *l, struct ll_type t)
{
	return out(l->f.ConstNull(type_of(l, t)));
}

struct ll_value *
ll_undef(struct ll *l, struct ll_type t)
{
	return out(l->f.GetUndef(type_of(l, t)));
}

struct ll_value *
ll_iota(struct ll *l, struct ll_type t)
{
	LLVMTypeRef base = base_type(l, (enum ll_base)t.base);
	LLVMValueRef at[LL_CARRY];
	uint32_t i;

	for (i = 0; i < t.lanes; i++) {
		at[i] = is_float(t) ? l->f.ConstReal(base, i)
			: l->f.ConstInt(base, i, 0);
	}
	return out(t.lanes > 1 ? l->f.ConstVector(at, t.lanes) : at[0]);
}

static LLVMTypeRef
words_type(struct ll *l, uint32_t n)
{
	return l->f.ArrayType2(base_type(l, LL_I64), n);
}

static LLVMValueRef
new_data(struct ll *l, const char *name, LLVMTypeRef t)
{
	LLVMValueRef g = l->f.AddGlobal(l->m, t, name ? name : "");

	l->f.SetGlobalConstant(g, 1);
	l->f.SetLinkage(g, name ? LLVMExternalLinkage : LLVMPrivateLinkage);
	return g;
}

/* Data are words of 64 bits; pointers among them are relocated. */
static LLVMValueRef
as_word(struct ll *l, struct ll_value *v)
{
	LLVMTypeRef i64 = base_type(l, LL_I64);

	switch (ll_typeof(l, v).base) {
	case LL_PTR:
		return l->f.ConstPtrToInt(in(v), i64);
	case LL_F64:	/* a constant: folded */
		return l->f.BuildBitCast(l->b, in(v), i64, "");
	default:
		return in(v);
	}
}

static void
set_data(struct ll *l, LLVMValueRef data, struct ll_value *const *words,
	 uint32_t n)
{
	LLVMValueRef *at = arena_alloc(l->a, (n + 1) * sizeof *at);
	uint32_t i;

	for (i = 0; i < n; i++) {
		at[i] = as_word(l, words[i]);
	}
	l->f.SetInitializer(data, l->f.ConstArray2(base_type(l, LL_I64), at,
						   n));
}

struct ll_value *
ll_data(struct ll *l, const char *name, struct ll_value *const *words,
	uint32_t n)
{
	LLVMValueRef *known = NULL, data;

	if (!name && n) {	/* equal data are one object */
		sym_t s = intern(&l->words, (const char *)words,
				 n * sizeof *words);

		while (l->words_data.n <= s) {
			VEC_PUSH(l->a, &l->words_data, NULL);
		}
		known = &l->words_data.at[s];
		if (*known) {
			return out(*known);
		}
	}
	data = new_data(l, name, words_type(l, n));
	if (words) {
		set_data(l, data, words, n);
	}
	if (known) {
		*known = data;
	}
	return out(data);
}

struct ll_value *
ll_data_at(struct ll *l, struct ll_value *data, uint32_t i)
{
	LLVMValueRef at = in(ll_int(l, ll_type(LL_I64, 1), i));

	return out(l->f.ConstGEP2(base_type(l, LL_I64), in(data), &at, 1));
}

struct ll_value *
ll_bytes(struct ll *l, const void *at, size_t n)
{
	LLVMValueRef v, g;

	v = l->f.ConstStringInContext2(l->c, at, n, 1);
	g = new_data(l, NULL, l->f.TypeOf(v));
	l->f.SetInitializer(g, v);
	return out(g);
}

struct ll_value *
ll_text(struct ll *l, const char *s)
{
	size_t n = strlen(s) + 1;
	sym_t name = intern(&l->texts, s, n);

	while (l->text_data.n <= name) {
		VEC_PUSH(l->a, &l->text_data, NULL);
	}
	if (!l->text_data.at[name]) {
		l->text_data.at[name] = in(ll_bytes(l, s, n));
	}
	return out(l->text_data.at[name]);
}

/* ---- arithmetic ---- */

typedef LLVMValueRef bin_fn(LLVMBuilderRef, LLVMValueRef, LLVMValueRef,
			    const char *);

static bin_fn *
float_op(const struct ll *l, enum ll_op op)
{
	switch (op) {
	case LL_ADD: return l->f.BuildFAdd;
	case LL_SUB: return l->f.BuildFSub;
	case LL_MUL: return l->f.BuildFMul;
	case LL_DIV: return l->f.BuildFDiv;
	case LL_REM: return l->f.BuildFRem;
	default: die("op %d of floats", (int)op);
	}
}

static bin_fn *
int_op(const struct ll *l, enum ll_op op)
{
	switch (op) {
	case LL_ADD: return l->f.BuildAdd;
	case LL_SUB: return l->f.BuildSub;
	case LL_MUL: return l->f.BuildMul;
	case LL_DIV: return l->f.BuildSDiv;
	case LL_REM: return l->f.BuildSRem;
	case LL_UDIV: return l->f.BuildUDiv;
	case LL_UREM: return l->f.BuildURem;
	case LL_AND: return l->f.BuildAnd;
	case LL_OR: return l->f.BuildOr;
	case LL_XOR: return l->f.BuildXor;
	case LL_SHL: return l->f.BuildShl;
	case LL_LSHR: return l->f.BuildLShr;
	case LL_ASHR: return l->f.BuildAShr;
	}
	die("op %d", (int)op);
}

struct ll_value *
ll_bin(struct ll *l, enum ll_op op, struct ll_value *a, struct ll_value *b)
{
	bin_fn *f = is_float(ll_typeof(l, a)) ? float_op(l, op)
		: int_op(l, op);

	return out(f(l->b, in(a), in(b), ""));
}

struct ll_value *
ll_neg(struct ll *l, struct ll_value *a)
{
	return out(is_float(ll_typeof(l, a))
		   ? l->f.BuildFNeg(l->b, in(a), "")
		   : l->f.BuildNeg(l->b, in(a), ""));
}

struct ll_value *
ll_test(struct ll *l, enum ll_test t, struct ll_value *a, struct ll_value *b)
{
	static const LLVMRealPredicate floats[] = {
		[LL_EQ] = LLVMRealOEQ, [LL_NE] = LLVMRealUNE,
		[LL_LT] = LLVMRealOLT, [LL_LE] = LLVMRealOLE,
		[LL_GT] = LLVMRealOGT, [LL_GE] = LLVMRealOGE,
		[LL_ULT] = LLVMRealULT
	};
	static const LLVMIntPredicate ints[] = {
		[LL_EQ] = LLVMIntEQ, [LL_NE] = LLVMIntNE,
		[LL_LT] = LLVMIntSLT, [LL_LE] = LLVMIntSLE,
		[LL_GT] = LLVMIntSGT, [LL_GE] = LLVMIntSGE,
		[LL_ULT] = LLVMIntULT
	};

	return out(is_float(ll_typeof(l, a))
		   ? l->f.BuildFCmp(l->b, floats[t], in(a), in(b), "")
		   : l->f.BuildICmp(l->b, ints[t], in(a), in(b), ""));
}

struct ll_value *
ll_select(struct ll *l, struct ll_value *cond, struct ll_value *yes,
	  struct ll_value *no)
{
	return out(l->f.BuildSelect(l->b, in(cond), in(yes), in(no), ""));
}

struct ll_value *
ll_bits(struct ll *l, struct ll_value *v, struct ll_type to)
{
	struct ll_type from = ll_typeof(l, v);

	if (from.base == LL_PTR && to.base != LL_PTR) {
		return out(l->f.BuildPtrToInt(l->b, in(v), type_of(l, to),
					      ""));
	}
	if (to.base == LL_PTR && from.base != LL_PTR) {
		return out(l->f.BuildIntToPtr(l->b, in(v), type_of(l, to),
					      ""));
	}
	return out(l->f.BuildBitCast(l->b, in(v), type_of(l, to), ""));
}

static struct ll_value *
cast_int(struct ll *l, struct ll_value *v, struct ll_type from,
	 struct ll_type to)
{
	LLVMTypeRef t = type_of(l, to);

	if (!is_float(to)) {
		return out(l->f.BuildIntCast2(l->b, in(v), t,
					      from.base != LL_I1, ""));
	}
	return out(from.base == LL_I1
		   ? l->f.BuildUIToFP(l->b, in(v), t, "")
		   : l->f.BuildSIToFP(l->b, in(v), t, ""));
}

struct ll_value *
ll_convert(struct ll *l, struct ll_value *v, enum ll_base base)
{
	struct ll_type from = ll_typeof(l, v), to = from;

	to.base = (uint8_t)base;
	if (!is_float(from)) {
		return cast_int(l, v, from, to);
	}
	return out(is_float(to)
		   ? l->f.BuildFPCast(l->b, in(v), type_of(l, to), "")
		   : l->f.BuildFPToSI(l->b, in(v), type_of(l, to), ""));
}

struct ll_value *
ll_overloaded(struct ll *l, const char *name, const struct ll_type *over,
	      uint32_t nover, struct ll_value *const *args, uint32_t n)
{
	unsigned id = l->f.LookupIntrinsicID(name, strlen(name));
	LLVMTypeRef types[4];
	uint32_t i;

	if (id == 0 || nover > 4) {
		die("LLVM has no %s", name);
	}
	for (i = 0; i < nover; i++) {
		types[i] = type_of(l, over[i]);
	}
	return ll_call(l, out(l->f.GetIntrinsicDeclaration(l->m, id, types,
				l->f.IntrinsicIsOverloaded(id) ? nover : 0)),
		       args, n);
}

/* ---- vectors ---- */

static struct ll_value *
i32_of(struct ll *l, uint32_t i)
{
	return ll_int(l, ll_type(LL_I32, 1), i);
}

struct ll_value *
ll_lane(struct ll *l, struct ll_value *v, uint32_t i)
{
	if (ll_typeof(l, v).lanes <= 1) {
		return v;
	}
	return out(l->f.BuildExtractElement(l->b, in(v), in(i32_of(l, i)),
					    ""));
}

struct ll_value *
ll_set_lane(struct ll *l, struct ll_value *v, struct ll_value *x, uint32_t i)
{
	if (ll_typeof(l, v).lanes <= 1) {
		return x;
	}
	return out(l->f.BuildInsertElement(l->b, in(v), in(x),
					   in(i32_of(l, i)), ""));
}

struct ll_value *
ll_shuffle(struct ll *l, struct ll_value *a, struct ll_value *b,
	   const int *pick, uint32_t n)
{
	LLVMValueRef at[LL_CARRY];
	LLVMTypeRef i32 = base_type(l, LL_I32);
	uint32_t i;

	if (n > LL_CARRY) {
		die("%u lanes", n);
	}
	for (i = 0; i < n; i++) {
		at[i] = pick[i] < 0 ? l->f.GetUndef(i32)
			: l->f.ConstInt(i32, (unsigned)pick[i], 0);
	}
	return out(l->f.BuildShuffleVector(l->b, in(a), in(b),
					   l->f.ConstVector(at, n), ""));
}

/* ---- memory ---- */

struct ll_value *
ll_load(struct ll *l, struct ll_type t, struct ll_value *ptr)
{
	struct ll_type as = t.base == LL_BF16 ? ll_type(LL_I16, t.lanes) : t;
	LLVMValueRef v = l->f.BuildLoad2(l->b, type_of(l, as), in(ptr), "");

	l->f.SetAlignment(v, bits_of((enum ll_base)t.base) < 8 ? 1
			  : bits_of((enum ll_base)t.base) / 8);
	return ll_bits(l, out(v), t);
}

void
ll_store(struct ll *l, struct ll_value *v, struct ll_value *ptr)
{
	struct ll_type t = ll_typeof(l, v);
	uint32_t bits = bits_of((enum ll_base)t.base);

	if (t.base == LL_BF16) {
		v = ll_bits(l, v, ll_type(LL_I16, t.lanes));
	}
	l->f.SetAlignment(l->f.BuildStore(l->b, in(v), in(ptr)),
			  bits < 8 ? 1 : bits / 8);
}

struct ll_value *
ll_add_atomic(struct ll *l, struct ll_value *ptr, struct ll_value *v)
{
	return out(l->f.BuildAtomicRMW(l->b, LLVMAtomicRMWBinOpAdd, in(ptr),
		in(v), LLVMAtomicOrderingAcquireRelease, 0));
}

struct ll_value *
ll_plus(struct ll *l, struct ll_value *ptr, struct ll_value *bytes)
{
	LLVMValueRef at = in(bytes);

	return out(l->f.BuildGEP2(l->b, base_type(l, LL_I8), in(ptr), &at, 1,
				  ""));
}

struct ll_value *
ll_stack(struct ll *l, struct ll_type t, int64_t n)
{
	LLVMBasicBlockRef here = l->f.GetInsertBlock(l->b), entry;
	LLVMValueRef first, array;

	entry = l->f.GetEntryBasicBlock(l->f.GetBasicBlockParent(here));
	first = l->f.GetFirstInstruction(entry);
	if (first) {
		l->f.PositionBuilderBefore(l->b, first);
	} else {
		l->f.PositionBuilderAtEnd(l->b, entry);
	}
	array = l->f.BuildAlloca(l->b,
		l->f.ArrayType2(type_of(l, t), (uint64_t)n), "");
	l->f.SetAlignment(array, 64);
	l->f.PositionBuilderAtEnd(l->b, here);
	return out(array);
}

void
ll_copy(struct ll *l, struct ll_value *to, struct ll_value *from,
	struct ll_value *bytes)
{
	l->f.BuildMemCpy(l->b, in(to), 1, in(from), 1, in(bytes));
}

