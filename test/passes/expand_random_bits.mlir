// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-expand-math)' | FileCheck %s --check-prefix=CPU
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-expand-math{target=nvvm},lamina-distribute)' | FileCheck %s --check-prefix=GPU
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-distribute,lamina-gpu-to-nvvm)' | FileCheck %s --check-prefix=NVVM

// Neighbors that are whole blocks of four words: 64 lanes are 16 blocks on the CPU, whose words are put in order in pairs; a thread
// of the GPU computes one block for its four lanes. Seven rounds have 14 wide products, less those of zero.

// CPU-LABEL: func.func private @neighbors
// CPU-NOT: random.bits
// CPU-COUNT-14: arith.muli %{{.*}} : vector<16xi64>
// CPU-NOT: arith.muli %{{.*}} : vector
// CPU: vector.interleave %{{.*}} : vector<16xi64> -> vector<32xi64>
// CPU: vector.bitcast %{{.*}} : vector<32xi64> to vector<64xi32>

// GPU-LABEL: gpu.func @neighbors
// GPU: %[[BLOCK:.*]] = arith.shrui %{{.*}}, %c2_i64 : i64
// GPU-COUNT-14: arith.mului_extended %{{.*}} : i32
// GPU-NOT: arith.mului_extended
// GPU: %[[WORDS:.*]] = vector.from_elements %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : vector<4xi32>
// GPU: vector.store %[[WORDS]]

// NVVM-LABEL: gpu.func @neighbors
// NVVM-NOT: arith.mului_extended
// NVVM-COUNT-14: llvm.inline_asm "{ .reg .b64 p; mul.wide.u32 p, $2, $3; mov.b64 {$0, $1}, p; }"
func.func private @neighbors(%s: memref<1xi64>, %o: memref<128xi32>) attributes {tile.grid = 2 : i64, tile.threads = 16 : i64, tile.vec = 4 : i64, tile.chunks = 1 : i64, tile.pack = 1 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 8, 16>} {
  %p = "tile.program_id"() : () -> index
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %first = arith.muli %p, %c64 : index
  %seed = memref.load %s[%c0] : memref<1xi64>
  %seeds = vector.broadcast %seed : i64 to vector<64xi64>
  %base = vector.broadcast %first : index to vector<64xindex>
  %step = vector.step : vector<64xindex>
  %at = arith.addi %base, %step : vector<64xindex>
  %r = "random.bits"(%seeds, %at) : (vector<64xi64>, vector<64xindex>) -> vector<64xi32>
  vector.transfer_write %r, %o[%first] {in_bounds = [true]} : vector<64xi32>, memref<128xi32>
  return
}

// Neighbors from anywhere on: four of them lie in two blocks, of whose words a thread takes those from its first element's on.

// GPU-LABEL: gpu.func @shifted
// GPU: arith.shrsi %{{.*}}, %c2_i64 : i64
// GPU-COUNT-28: arith.mului_extended %{{.*}} : i32
// GPU-NOT: arith.mului_extended
// GPU-COUNT-10: arith.select
// GPU-NOT: arith.select
// GPU: vector.from_elements %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : vector<4xi32>
func.func private @shifted(%s: memref<1xi64>, %o: memref<128xi32>) attributes {tile.grid = 2 : i64, tile.threads = 16 : i64, tile.vec = 4 : i64, tile.chunks = 1 : i64, tile.pack = 1 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 8, 16>} {
  %p = "tile.program_id"() : () -> index
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c65 = arith.constant 65 : index
  %first = arith.muli %p, %c64 : index
  %row = arith.muli %p, %c65 : index
  %seed = memref.load %s[%c0] : memref<1xi64>
  %seeds = vector.broadcast %seed : i64 to vector<64xi64>
  %base = vector.broadcast %row : index to vector<64xindex>
  %step = vector.step : vector<64xindex>
  %at = arith.addi %base, %step : vector<64xindex>
  %r = "random.bits"(%seeds, %at) : (vector<64xi64>, vector<64xindex>) -> vector<64xi32>
  vector.transfer_write %r, %o[%first] {in_bounds = [true]} : vector<64xi32>, memref<128xi32>
  return
}

// Every other element: a block for each, of which it takes its word.

// CPU-LABEL: func.func private @apart
// CPU-COUNT-14: arith.muli %{{.*}} : vector<64xi64>
// CPU-COUNT-3: arith.select
// CPU: arith.trunci %{{.*}} : vector<64xi64> to vector<64xi32>

// GPU-LABEL: gpu.func @apart
// GPU-COUNT-14: arith.mului_extended %{{.*}} : vector<4xi32>
// GPU-COUNT-3: arith.select
func.func private @apart(%s: memref<1xi64>, %o: memref<64xi32>) attributes {tile.grid = 1 : i64, tile.threads = 16 : i64, tile.vec = 4 : i64, tile.chunks = 1 : i64, tile.pack = 1 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 8, 16>} {
  %c0 = arith.constant 0 : index
  %two = arith.constant dense<2> : vector<64xindex>
  %seed = memref.load %s[%c0] : memref<1xi64>
  %seeds = vector.broadcast %seed : i64 to vector<64xi64>
  %step = vector.step : vector<64xindex>
  %at = arith.muli %step, %two : vector<64xindex>
  %r = "random.bits"(%seeds, %at) : (vector<64xi64>, vector<64xindex>) -> vector<64xi32>
  vector.transfer_write %r, %o[%c0] {in_bounds = [true]} : vector<64xi32>, memref<64xi32>
  return
}
