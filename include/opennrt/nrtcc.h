/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nrtcc: build a graph of HLO operations in memory and compile it to a NEFF.
 *
 * libnrtcc.so.1 links neither libnrt nor protobuf. Operations map one to one to HLO; semantics are
 * those of the XLA operation semantics document. A graph belongs to one thread at a time; distinct
 * graphs are independent. Every function that can fail returns an nrtcc_status_t and leaves the
 * text of the failure in nrtcc_last_error() of the calling thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NRTCC_API __attribute__((visibility("default")))
#else
#define NRTCC_API
#endif

typedef enum {
  NRTCC_OK = 0,
  NRTCC_INVALID = 1,     /* the call or the graph is malformed */
  NRTCC_UNSUPPORTED = 2, /* well formed, but this compiler does not lower it */
  NRTCC_NO_MEMORY = 3,
  NRTCC_INTERNAL = 4 /* a bug of the compiler */
} nrtcc_status_t;

/* Element types: numbers of XLA's PrimitiveType. */
typedef enum {
  NRTCC_PRED = 1,
  NRTCC_S8 = 2,
  NRTCC_S16 = 3,
  NRTCC_S32 = 4,
  NRTCC_S64 = 5,
  NRTCC_U8 = 6,
  NRTCC_U16 = 7,
  NRTCC_U32 = 8,
  NRTCC_U64 = 9,
  NRTCC_F16 = 10,
  NRTCC_F32 = 11,
  NRTCC_F64 = 12,
  NRTCC_TUPLE = 13,
  NRTCC_TOKEN = 17,
  NRTCC_BF16 = 16,
  NRTCC_F8E5M2 = 19,
  NRTCC_F8E4M3FN = 20,
  NRTCC_F8E4M3 = 28
} nrtcc_dtype_t;

/* An array shape, or a tuple of shapes when dtype is NRTCC_TUPLE. */
typedef struct nrtcc_shape {
  nrtcc_dtype_t dtype;
  int32_t rank;                       /* arrays: number of dims; tuples: number of elements */
  const int64_t* dims;                /* arrays */
  const struct nrtcc_shape* elements; /* tuples */
} nrtcc_shape_t;

/*
 * Attribute keys. Each says how `ints`/`count`, `data`/`size` and `value` are used.
 * Numbers are stable; new keys are appended.
 */
typedef enum {
  NRTCC_ATTR_PARAMETER_NUMBER = 1, /* ints[0] */
  NRTCC_ATTR_LITERAL = 2,          /* data: row-major little-endian elements (pred: 0 or 1 bytes) */
  NRTCC_ATTR_DIMENSIONS = 3,  /* broadcast, reduce, transpose, concatenate, reverse, iota: ints */
  NRTCC_ATTR_SLICE = 4,       /* ints: start, limit, stride per dimension (3 x rank) */
  NRTCC_ATTR_PADDING = 5,     /* ints: low, high, interior per dimension (3 x rank) */
  NRTCC_ATTR_COMPARISON = 6,  /* data: "EQ" "NE" "LT" "LE" "GT" "GE" */
  NRTCC_ATTR_TOTAL_ORDER = 7, /* compare with total order of floats; no payload */
  NRTCC_ATTR_LHS_CONTRACTING = 8, /* dot: ints */
  NRTCC_ATTR_RHS_CONTRACTING = 9,
  NRTCC_ATTR_LHS_BATCH = 10,
  NRTCC_ATTR_RHS_BATCH = 11,
  NRTCC_ATTR_CALLED = 12,         /* ints: computation ids; while: condition, body; conditional: the
                                     branches */
  NRTCC_ATTR_OFFSET_DIMS = 13,    /* gather: ints; scatter: update_window_dims */
  NRTCC_ATTR_COLLAPSED_DIMS = 14, /* gather: collapsed_slice_dims; scatter: inserted_window_dims */
  NRTCC_ATTR_INDEX_MAP = 15, /* gather: start_index_map; scatter: scatter_dims_to_operand_dims */
  NRTCC_ATTR_INDEX_VECTOR_DIM = 16, /* ints[0] */
  NRTCC_ATTR_SLICE_SIZES = 17,      /* gather, dynamic-slice: ints */
  NRTCC_ATTR_OPERAND_BATCHING = 18, /* gather, scatter: ints */
  NRTCC_ATTR_INDICES_BATCHING = 19,
  NRTCC_ATTR_INDICES_SORTED = 20,    /* no payload */
  NRTCC_ATTR_UNIQUE_INDICES = 21,    /* no payload */
  NRTCC_ATTR_RNG_DISTRIBUTION = 22,  /* ints[0]: 1 uniform, 2 normal (XLA RandomDistribution) */
  NRTCC_ATTR_RNG_ALGORITHM = 23,     /* ints[0]: 0 default, 1 three-fry, 2 philox */
  NRTCC_ATTR_TUPLE_INDEX = 24,       /* get-tuple-element: ints[0] */
  NRTCC_ATTR_TARGET = 25,            /* custom-call: data = target name */
  NRTCC_ATTR_BACKEND_CONFIG = 26,    /* custom-call: data */
  NRTCC_ATTR_EXPONENT_MANTISSA = 27, /* reduce-precision: ints[0], ints[1] */
  NRTCC_ATTR_STABLE = 28,            /* sort; no payload */
  NRTCC_ATTR_WINDOW = 29, /* ints: size, stride, pad low, pad high, window dilation, base dilation,
                             reversal per dimension (7 x n) */
  NRTCC_ATTR_CONV_DIMS = 30, /* ints: see docs/nrtcc.md */
  NRTCC_ATTR_GROUPS = 31,    /* convolution: feature group count, batch group count */
  NRTCC_ATTR_EPSILON = 32,   /* batch-norm: data = one f32; DIMENSIONS: the feature dimension */
  NRTCC_ATTR_NAME = 33,      /* any: data = instruction name, for messages and profiles */
  NRTCC_ATTR_SOURCE = 34,    /* any: data = "op_name file:line", for messages and profiles */
  NRTCC_ATTR_K = 35,         /* topk: ints[0] */
  NRTCC_ATTR_LARGEST = 36,   /* topk: the largest elements, not the smallest; no payload */
  NRTCC_ATTR_TRIANGLE = 40 /* triangular-solve: left side, lower, unit diagonal, transpose a (1 no,
                              2 transposed, 3 adjoint); cholesky: lower */
} nrtcc_attr_key_t;

typedef struct {
  nrtcc_attr_key_t key;
  int32_t count; /* of ints */
  const int64_t* ints;
  const void* data;
  size_t size; /* of data, bytes */
} nrtcc_attr_t;

typedef struct nrtcc_graph nrtcc_graph_t;
typedef int32_t nrtcc_value_t;       /* an operation's result; unique in its graph */
typedef int32_t nrtcc_computation_t; /* 0 is the entry computation and exists from the start */

NRTCC_API const char* nrtcc_version(void);
/* Text of the last failure on this thread; "" if there was none. Valid until the next failure. */
NRTCC_API const char* nrtcc_last_error(void);

NRTCC_API nrtcc_status_t nrtcc_graph_create(const char* name, nrtcc_graph_t** graph);
NRTCC_API void nrtcc_graph_destroy(nrtcc_graph_t* graph);

/* A computation to be called by reduce, scatter, while, ...; give it parameters and a root. */
NRTCC_API nrtcc_status_t nrtcc_computation(nrtcc_graph_t* graph, const char* name,
                                           nrtcc_computation_t* computation);

/* Opcode number of an HLO opcode text such as "add" or "dynamic-slice"; -1 if there is none. */
NRTCC_API int32_t nrtcc_opcode(const char* name);
/* Text of an opcode number; NULL if there is none. */
NRTCC_API const char* nrtcc_opcode_name(int32_t opcode);

/*
 * Appends an operation. Operands are values of the same computation. The shape is the result's and
 * is checked against the operands: NRTCC_INVALID names the operation, expected and found.
 */
NRTCC_API nrtcc_status_t nrtcc_op(nrtcc_graph_t* graph, nrtcc_computation_t computation,
                                  int32_t opcode, const nrtcc_value_t* operands, int32_t n,
                                  const nrtcc_shape_t* shape, const nrtcc_attr_t* attributes,
                                  int32_t attribute_count, nrtcc_value_t* value);
NRTCC_API nrtcc_status_t nrtcc_set_root(nrtcc_graph_t* graph, nrtcc_computation_t computation,
                                        nrtcc_value_t value);

/* Names in the NEFF's tensor table; default input{i} and output{i}. */
NRTCC_API nrtcc_status_t nrtcc_set_input_name(nrtcc_graph_t* graph, int32_t parameter,
                                              const char* name);
NRTCC_API nrtcc_status_t nrtcc_set_output_name(nrtcc_graph_t* graph, int32_t output,
                                               const char* name);
/* Output `output` may live in the buffer of parameter `parameter`. */
NRTCC_API nrtcc_status_t nrtcc_set_alias(nrtcc_graph_t* graph, int32_t output, int32_t parameter);

typedef struct {
  size_t struct_size;           /* sizeof(nrtcc_options_t) of the caller */
  const char* target;           /* "trn1", "trn1n", "inf2", "trn2", "trn3"; NULL: "trn2" */
  int32_t lnc;                  /* 0: default of the target */
  int32_t optimization;         /* 0..3; -1: default (2) */
  int32_t compress;             /* 1: gzip the NEFF payload */
  int32_t auto_cast;            /* 0 none, 1 matmult, 2 all */
  nrtcc_dtype_t auto_cast_type; /* NRTCC_BF16, NRTCC_F16; ignored when auto_cast is 0 */
  const char* dump_dir;         /* write every stage as text; NULL: don't */
} nrtcc_options_t;

/* On success *neff is allocated; free with nrtcc_free(). `options` may be NULL. */
NRTCC_API nrtcc_status_t nrtcc_compile(const nrtcc_graph_t* graph, const nrtcc_options_t* options,
                                       uint8_t** neff, size_t* size);
NRTCC_API void nrtcc_free(void* memory);
/*
 * What the last successful nrtcc_compile() on this thread wants the user to know, such as f64 that
 * is computed in f32: lines of text, "" if nothing. Valid until the next compile.
 */
NRTCC_API const char* nrtcc_last_warnings(void);

/*
 * A compile cache: the programs used last in memory, and if a folder is given, all of them on disk,
 * shared by processes. Equal are graphs that differ only in names of the module, of instructions
 * and of computations, in source locations, in dead values and in the order of independent
 * operations, if the options are equal; a cached NEFF carries the names of the graph that was
 * compiled first. Failures are not kept. Whatever is wrong with the folder, compilation goes on
 * without it, and says so once in nrtcc_last_warnings(). One cache serves any number of threads.
 */
typedef struct nrtcc_cache nrtcc_cache_t;

typedef struct {
  size_t struct_size;   /* sizeof(nrtcc_cache_options_t) of the caller */
  const char* folder;   /* path or file:// URL; NULL or "": in memory only */
  int64_t disk_bytes;   /* 0: OPENNRT_COMPILE_CACHE_SIZE, which is 4 GiB if not set; -1: no limit */
  int64_t memory_bytes; /* 0: 256 MiB; -1: nothing is kept in memory */
  int64_t memory_programs; /* 0: 4096 */
} nrtcc_cache_options_t;

typedef enum {
  NRTCC_COMPILED = 0,
  NRTCC_FROM_MEMORY = 1, /* or from another thread that compiled it at the same time */
  NRTCC_FROM_DISK = 2
} nrtcc_origin_t;

typedef struct {
  size_t
      struct_size; /* sizeof(nrtcc_cache_stats_t) of the caller; fields beyond it are not written */
  uint64_t memory_hits;
  uint64_t memory_waits; /* of the hits: for another thread's compilation */
  uint64_t memory_evictions;
  uint64_t memory_programs; /* now in memory */
  uint64_t memory_bytes;    /* now in memory */
  uint64_t disk_hits;
  uint64_t disk_stores;    /* written by this cache */
  uint64_t disk_evictions; /* removed by this cache */
  uint64_t disk_damaged;   /* found damaged and compiled again */
  uint64_t compiled;
  uint64_t failed;   /* compilations */
  int32_t disk_used; /* 0: no folder was given, or it can't be used: nrtcc_cache_problem() */
} nrtcc_cache_stats_t;

/* `options` may be NULL. An unusable folder is no failure. */
NRTCC_API nrtcc_status_t nrtcc_cache_open(const nrtcc_cache_options_t* options,
                                          nrtcc_cache_t** cache);
/* No call may be using the cache. NULL is fine. */
NRTCC_API void nrtcc_cache_close(nrtcc_cache_t* cache);
/*
 * As nrtcc_compile(), from the cache if it is there. `cache` NULL: compiles; `origin` may be NULL.
 * With a dump_dir it always compiles.
 */
NRTCC_API nrtcc_status_t nrtcc_compile_cached(nrtcc_cache_t* cache, const nrtcc_graph_t* graph,
                                              const nrtcc_options_t* options, uint8_t** neff,
                                              size_t* size, nrtcc_origin_t* origin);
NRTCC_API nrtcc_status_t nrtcc_cache_stats(const nrtcc_cache_t* cache, nrtcc_cache_stats_t* stats);
/* Why the folder isn't used (folder and reason); "" if it is. Free with nrtcc_free(). */
NRTCC_API nrtcc_status_t nrtcc_cache_problem(const nrtcc_cache_t* cache, char** text);
/*
 * What graph and options are known by in every cache: two SHA-256 digests in hexadecimal with a
 * '+' between. The version of the compiler is not in it. Free with nrtcc_free().
 */
NRTCC_API nrtcc_status_t nrtcc_cache_key(const nrtcc_graph_t* graph, const nrtcc_options_t* options,
                                         char** text);

/*
 * The reference interpreter: slow, obvious, the oracle. inputs[i] is parameter i, outputs[i] the
 * i-th root element; both dense row-major and of exactly the shape's size.
 */
NRTCC_API nrtcc_status_t nrtcc_interpret(const nrtcc_graph_t* graph, const void* const* inputs,
                                         int32_t input_count, void* const* outputs,
                                         int32_t output_count);

/* Text form; nrtcc_parse() of nrtcc_print() gives an equal graph. Free the text with nrtcc_free().
 */
NRTCC_API nrtcc_status_t nrtcc_print(const nrtcc_graph_t* graph, char** text);
NRTCC_API nrtcc_status_t nrtcc_parse(const char* text, size_t size, nrtcc_graph_t** graph);

#ifdef __cplusplus
}
#endif
