// Programs for a GPU over rows that start at no multiples of 16 bytes: accesses are narrow, and each thread has several in flight.
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a}' | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>

// Rows of the result have no gaps: they are one axis, written in pairs, and every row that is read lies one element further on.
// CHECK-LABEL: func.func private @rows_apart
// CHECK-SAME: tile.chunks = 8 : i64
// CHECK-SAME: tile.threads = 128 : i64, tile.vec = 2 : i64
// CHECK: "tile.read_runs"({{.*}}) {along = 1 : i64, jumps = [1], lengths = [119]}
// CHECK: vector.transfer_write
func.func private @rows_apart(%x: tensor<65536x120xf16>) -> tensor<65536x119xf16> attributes {graph.kernel} {
  %s = tensor.extract_slice %x[0, 0] [65536, 119] [1, 1] : tensor<65536x120xf16> to tensor<65536x119xf16>
  %e = tensor.empty() : tensor<65536x119xf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<65536x119xf16>) outs(%e : tensor<65536x119xf16>) {
  ^bb0(%a: f16, %o: f16):
    %0 = arith.negf %a : f16
    linalg.yield %0 : f16
  } -> tensor<65536x119xf16>
  return %r : tensor<65536x119xf16>
}

// Rows that are read start at odd elements, those that are written do not: pairs, as one program of a warp and row.
// CHECK-LABEL: func.func private @odd_start
// CHECK-SAME: tile.chunks = 6 : i64
// CHECK-SAME: tile.grid = 8192 : i64
// CHECK-SAME: tile.pack = 4 : i64
// CHECK-SAME: tile.threads = 32 : i64, tile.vec = 2 : i64
// CHECK: vector.transfer_read {{.*}} vector<384xbf16>
func.func private @odd_start(%x: tensor<8192x387xbf16>) -> tensor<8192x384xbf16> attributes {graph.kernel} {
  %s = tensor.extract_slice %x[0, 1] [8192, 384] [1, 1] : tensor<8192x387xbf16> to tensor<8192x384xbf16>
  %e = tensor.empty() : tensor<8192x384xbf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<8192x384xbf16>) outs(%e : tensor<8192x384xbf16>) {
  ^bb0(%a: bf16, %o: bf16):
    %0 = arith.negf %a : bf16
    linalg.yield %0 : bf16
  } -> tensor<8192x384xbf16>
  return %r : tensor<8192x384xbf16>
}

// A row of a small tensor is spread over more threads: there are too few rows to keep a GPU busy.
// CHECK-LABEL: func.func private @few_rows
// CHECK-SAME: tile.chunks = 1 : i64
func.func private @few_rows(%x: tensor<64x387xbf16>) -> tensor<64x384xbf16> attributes {graph.kernel} {
  %s = tensor.extract_slice %x[0, 1] [64, 384] [1, 1] : tensor<64x387xbf16> to tensor<64x384xbf16>
  %e = tensor.empty() : tensor<64x384xbf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<64x384xbf16>) outs(%e : tensor<64x384xbf16>) {
  ^bb0(%a: bf16, %o: bf16):
    %0 = arith.negf %a : bf16
    linalg.yield %0 : bf16
  } -> tensor<64x384xbf16>
  return %r : tensor<64x384xbf16>
}

// Rows of 604 that become 608: accesses of four elements end where a row does, and start where memory is aligned.
// CHECK-LABEL: func.func private @padded
// CHECK-SAME: tile.chunks = 5 : i64
// CHECK-SAME: tile.threads = 32 : i64, tile.vec = 4 : i64
func.func private @padded(%x: tensor<8192x604xf16>) -> tensor<8192x608xf16> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f16
  %r = tensor.pad %x low[0, 0] high[0, 4] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f16
  } : tensor<8192x604xf16> to tensor<8192x608xf16>
  return %r : tensor<8192x608xf16>
}

// A bias of odd rows is read element by element: the rest is whole accesses along all rows.
// CHECK-LABEL: func.func private @bias
// CHECK-SAME: tile.vec = 8 : i64
// CHECK-DAG: vector.transfer_read %{{.*}} vector<2048xf16>
// CHECK-DAG: "tile.read_runs"({{.*}}) {along = 1 : i64, jumps = [-119], lengths = [119]}
func.func private @bias(%x: tensor<65536x119xf16>, %w: tensor<119xf16>) -> tensor<65536x119xf16> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<65536x119xf16>
  %r = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %w : tensor<65536x119xf16>, tensor<119xf16>) outs(%e : tensor<65536x119xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %0 = arith.mulf %a, %b : f16
    linalg.yield %0 : f16
  } -> tensor<65536x119xf16>
  return %r : tensor<65536x119xf16>
}

// Sums of many rows: a warp reads two sectors of a row at a time, each thread in four accesses.
// CHECK-LABEL: func.func private @row_sums
// CHECK-SAME: tile.chunks = 4 : i64
// CHECK-SAME: tile.threads = 32 : i64, tile.vec = 1 : i64
func.func private @row_sums(%x: tensor<262144x119xf16>) -> tensor<262144x119xf16> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<262144xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<262144xf16>) -> tensor<262144xf16>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<262144x119xf16>) outs(%f : tensor<262144xf16>) {
  ^bb0(%a: f16, %o: f16):
    %0 = arith.addf %a, %o : f16
    linalg.yield %0 : f16
  } -> tensor<262144xf16>
  %e2 = tensor.empty() : tensor<262144x119xf16>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<262144x119xf16>, tensor<262144xf16>) outs(%e2 : tensor<262144x119xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %0 = arith.divf %a, %b : f16
    linalg.yield %0 : f16
  } -> tensor<262144x119xf16>
  return %r : tensor<262144x119xf16>
}
