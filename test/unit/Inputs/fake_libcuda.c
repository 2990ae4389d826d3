// Stands in for NVIDIA's driver on a machine without a GPU: records what is launched, runs the kernel "inc" on the host, fails where
// it is told to. Device pointers are host pointers. One GPU, number 0.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
  int id;
  char pad[4];
  union {
    struct { unsigned x, y, z; char rest[52]; } cluster;
    int allowed;
  };
} Attribute;
typedef struct {
  unsigned grid[3], block[3], shared;
  void *stream;
  Attribute *attributes;
  unsigned attribute_count;
} Config;

// What tests read and set.
typedef struct {
  char kernel[32];
  unsigned grid[3], block[3], shared, cluster, dependent;
  void *stream;
  void *arguments[4];
} Record;
Record fake_launches[256], fake_nodes[256]; // launched on a stream; added to a graph
int fake_launch_count, fake_node_count, fake_sources, fake_loads, fake_synchronizations, fake_attribute_count, fake_capturing, fake_version = 13000, fake_major = 9,
    fake_minor = 0, fake_depth, fake_relaxed_loads, fake_recording, fake_graph_launches, fake_graphs, fake_copies, fake_copy_launches, fake_changes,
    fake_kernel_us, fake_graph_us, fake_launch_us, fake_replay_us, fake_memory_mib = 1 << 17, fake_events, fake_late, fake_busy;
int fake_attributes[64][2];
void *fake_stream;
static char failing[64];
static int failure, failure_after;

void fake_fail(const char *function, int code, int after) {
  snprintf(failing, sizeof failing, "%s", function);
  failure = code;
  failure_after = after;
}

static int fails(const char *function) {
  if (!failure || strcmp(function, failing) || failure_after-- > 0) return 0;
  int code = failure;
  failure = 0;
  return code;
}
#define MAY_FAIL(name) do { int code = fails(name); if (code) return code; } while (0)

// The time on the GPU, of which a kernel takes fake_kernel_us and a graph fake_graph_us; the host takes fake_launch_us for a launch and
// fake_replay_us for one of a graph. An event is not ready at the first fake_late questions.
static double now_us;
static void spend(int host_us) {
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while ((double)(now.tv_sec - start.tv_sec) * 1e6 + (double)(now.tv_nsec - start.tv_nsec) * 1e-3 < host_us);
}
int cuEventCreate(double **event, unsigned flags) { *event = malloc(sizeof **event); fake_events++; return (int)flags; }
int cuEventRecord(double *event, void *stream) { (void)stream; *event = now_us; return 0; }
int cuEventElapsedTime(float *milliseconds, const double *first, const double *last) {
  if (fake_late > 0) { fake_late--; return 600; }
  *milliseconds = (float)((*last - *first) * 1e-3);
  return 0;
}
int cuStreamQuery(void *stream) { (void)stream; return fake_busy ? 600 : 0; }
int cuEventDestroy_v2(double *event) { free(event); fake_events--; return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = (size_t)fake_memory_mib << 20; return 0; }

static _Thread_local void *stack[16];
static _Thread_local int depth, mode;
static char context;

int cuInit(unsigned flags) { MAY_FAIL("cuInit"); return (int)flags; }
int cuDriverGetVersion(int *version) { *version = fake_version; return 0; }
int cuGetErrorName(int code, const char **name) { *name = code == 1 ? "CUDA_ERROR_INVALID_VALUE" : code == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : NULL; return 0; }
int cuGetErrorString(int code, const char **text) { *text = code == 1 ? "invalid argument" : NULL; return 0; }
int cuDeviceGet(int *device, int index) { MAY_FAIL("cuDeviceGet"); *device = index; return index ? 101 : 0; }
int cuDeviceGetName(char *name, int length, int device) { snprintf(name, (size_t)length, "Fake %d", device); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  *value = attribute == 75 ? fake_major : attribute == 76 ? fake_minor : attribute == 97 ? 232448 : -1;
  return 0;
}
int cuDevicePrimaryCtxRetain(void **found, int device) { (void)device; *found = &context; return 0; }
int cuCtxGetCurrent(void **now) { *now = depth ? stack[depth - 1] : NULL; return 0; }
int cuCtxPushCurrent_v2(void *given) { stack[depth++] = given; __atomic_add_fetch(&fake_depth, 1, __ATOMIC_SEQ_CST); return 0; }
int cuCtxPopCurrent_v2(void **gone) { *gone = stack[--depth]; __atomic_sub_fetch(&fake_depth, 1, __ATOMIC_SEQ_CST); return 0; }
int cuModuleLoadData(void **module, const void *image) {
  MAY_FAIL("cuModuleLoadData");
  if (!depth) return 201;
  fake_loads++;
  fake_relaxed_loads += mode == 2;
  *module = strdup(image); // never unloaded
  return 0;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  MAY_FAIL("cuModuleGetFunction");
  *function = strstr((const char *)module, name) ? strdup(name) : NULL;
  return *function ? 0 : 500;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
  (void)function;
  MAY_FAIL("cuFuncSetAttribute");
  fake_attributes[fake_attribute_count][0] = attribute;
  fake_attributes[fake_attribute_count++][1] = value;
  return 0;
}
// A graph is a list of nodes, one after the other; one is captured at a time. Those of a graph that is destroyed cannot be changed in
// what was made of it.
typedef struct {
  unsigned threads;
  void *arguments[2];
  Record *record; // where it was added to the graph
  int after;      // it has to wait for the node before it
} Node;
static Node *nodes;
static int node_count;
typedef struct Graph {
  Node *originals, *nodes;
  int count;
  struct Graph *source;
} Graph;
typedef struct {
  unsigned char from, to, type, reserved[5];
} Edge;
typedef struct {
  void *function;
  unsigned grid[3], block[3], shared;
  void **parameters, **extra, *kernel, *context;
} NodeParams;

static void increment(const Node *node) {
  const float *in = node->arguments[0];
  float *out = node->arguments[1];
  for (unsigned i = 0; i < node->threads; ++i) out[i] = in[i] + 1.0f;
}

void fake_begin(void) {
  fake_recording = 1;
  nodes = calloc(64, sizeof(Node));
  node_count = 0;
}
void *fake_end(void) {
  Graph *graph = malloc(sizeof *graph);
  *graph = (Graph){nodes, nodes, node_count, NULL};
  fake_recording = 0;
  return graph;
}
int cuStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id, void **graph, void *const **last, size_t *count) {
  static void *node;
  (void)stream, (void)graph;
  node = &nodes[node_count - 1];
  *status = 1, *id = 1, *last = &node, *count = 1;
  return 0;
}
int cuGraphCreate(Graph **graph, unsigned flags) {
  MAY_FAIL("cuGraphCreate");
  Node *own = calloc(64, sizeof(Node));
  *graph = malloc(sizeof **graph);
  **graph = (Graph){own, own, 0, NULL};
  fake_sources++;
  return (int)flags;
}
int cuGraphDestroy(Graph *graph) { free(graph->originals); graph->originals = NULL; fake_sources--; return 0; } // the rest is never freed
int cuGraphAddKernelNode_v2(Node **node, Graph *graph, Node *const *dependencies, size_t count, const NodeParams *p) {
  MAY_FAIL("cuGraphAddKernelNode_v2");
  if (!depth || p->extra || p->kernel || count > 1 || graph->count == 64) return 1;
  if (count && dependencies[0] != &graph->nodes[graph->count - 1]) return 1;
  Record *r = &fake_nodes[__atomic_fetch_add(&fake_node_count, 1, __ATOMIC_SEQ_CST) % 256];
  *node = &graph->nodes[graph->count];
  **node = (Node){p->grid[0] * p->block[0], {*(void **)p->parameters[0], *(void **)p->parameters[1]}, r, count || !graph->count};
  graph->count++;
  snprintf(r->kernel, sizeof r->kernel, "%s", (const char *)p->function);
  memcpy(r->grid, p->grid, sizeof r->grid);
  memcpy(r->block, p->block, sizeof r->block);
  r->shared = p->shared, r->cluster = 1, r->dependent = 0, r->stream = NULL;
  memcpy(r->arguments, (*node)->arguments, sizeof (*node)->arguments);
  return 0;
}
int cuGraphKernelNodeSetAttribute(Node *node, int id, const unsigned *value) {
  MAY_FAIL("cuGraphKernelNodeSetAttribute");
  if (id != 4) return 1;
  node->record->cluster = value[0];
  return 0;
}
#ifndef OLD // before CUDA 12.3
int cuGraphAddDependencies_v2(Graph *graph, Node *const *from, Node *const *to, const Edge *edge, size_t count) {
  MAY_FAIL("cuGraphAddDependencies_v2");
  if (count != 1 || from[0] < graph->nodes || to[0] != from[0] + 1 || to[0]->after || edge->from != edge->type || edge->to) return 1;
  to[0]->record->dependent = edge->type;
  to[0]->after = 1;
  return 0;
}
#endif
int cuGraphInstantiateWithFlags(void **exec, Graph *graph, unsigned long long flags) {
  MAY_FAIL("cuGraphInstantiateWithFlags");
  for (int i = 0; i < graph->count; ++i)
    if (!graph->nodes[i].after) return 1;
  Graph *copy = malloc(sizeof *copy);
  *copy = *graph;
  copy->source = graph;
  copy->nodes = calloc(64, sizeof(Node));
  memcpy(copy->nodes, copy->originals, (size_t)copy->count * sizeof(Node));
  fake_graphs++;
  *exec = copy;
  return (int)flags;
}
int cuGraphExecDestroy(void *exec) { free(((Graph *)exec)->nodes); free(exec); fake_graphs--; return 0; }
int cuGraphExecKernelNodeSetParams_v2(Graph *exec, Node *node, const NodeParams *p) {
  if (!exec->source->originals) return 1;
  Node *changed = &exec->nodes[node - exec->originals];
  if (changed->threads != p->grid[0] * p->block[0]) return 1;
  for (int i = 0; i < 2; ++i) changed->arguments[i] = *(void **)p->parameters[i];
  fake_changes++;
  return 0;
}
int cuGraphLaunch(Graph *exec, void *stream) {
  (void)stream;
  MAY_FAIL("cuGraphLaunch");
  for (int i = 0; i < exec->count; ++i) increment(&exec->nodes[i]);
  fake_graph_launches++;
  now_us += fake_graph_us;
  spend(fake_replay_us);
  return 0;
}
int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t bytes, void *stream) {
  (void)stream;
  memcpy((void *)to, (const void *)from, bytes);
  fake_copies++;
  return 0;
}

// What the kernel of native/copier.cpp does.
static int copy_all(const Config *c, const uint64_t *table) {
  if (c->grid[1] > 128 || fake_recording) return 1;
  for (unsigned y = 0; y < c->grid[1]; ++y) memcpy((void *)table[3 * y], (const void *)table[3 * y + 1], table[3 * y + 2]);
  fake_copies += (int)c->grid[1];
  fake_copy_launches++;
  return 0;
}

int cuLaunchKernelEx(const Config *c, void *function, void **parameters, void **extra) {
  MAY_FAIL("cuLaunchKernelEx");
  if (!depth || extra) return 201;
  if (!strcmp(function, "lamina_copy")) return copy_all(c, parameters[0]);
  Record *r = &fake_launches[__atomic_fetch_add(&fake_launch_count, 1, __ATOMIC_SEQ_CST) % 256];
  snprintf(r->kernel, sizeof r->kernel, "%s", (const char *)function);
  memcpy(r->grid, c->grid, sizeof r->grid);
  memcpy(r->block, c->block, sizeof r->block);
  r->shared = c->shared;
  r->stream = c->stream;
  r->cluster = 1, r->dependent = 0;
  for (const Attribute *a = c->attributes; a != c->attributes + c->attribute_count; ++a) {
    if (a->id == 4) r->cluster = a->cluster.x;
    if (a->id == 6) r->dependent = (unsigned)a->allowed;
  }
  for (int i = 0; i < 2; ++i) r->arguments[i] = *(void **)parameters[i];
  Node node = {c->grid[0] * c->block[0], {r->arguments[0], r->arguments[1]}, NULL, 1};
  if (fake_recording) nodes[node_count++] = node;
  now_us += fake_kernel_us;
  spend(fake_launch_us);
  increment(&node); // while recording too: library calls run then, and not when the graph does
  return 0;
}
int cuStreamSynchronize(void *stream) { (void)stream; MAY_FAIL("cuStreamSynchronize"); fake_synchronizations++; return 0; }
int cuStreamIsCapturing(void *stream, int *status) { (void)stream; *status = fake_capturing; return 0; }
int cuThreadExchangeStreamCaptureMode(int *given) { int was = mode; mode = *given; *given = was; return 0; }
int aoti_torch_get_current_cuda_stream(int32_t device, void **stream) { (void)device; *stream = fake_stream; return 0; }
