// A convolution with what reads it, by graph.choice: a group that sums over windows, and its program, in which the image is gathered
// and the weight is read as the right factor of a product.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels{target=nvvm:sm_90a})' --split-input-file | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels{target=nvvm:sm_90a},lamina-plan,lamina-tile{target=nvvm:sm_90a})' --split-input-file | FileCheck %s --check-prefix=TILE

// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d6, d2 * 2 + d4, d3 * 2 + d5 * 3)>
// CHECK-DAG: #[[WEIGHT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d6, d4, d5)>
// CHECK-LABEL: func.func @main
// CHECK-NOT: graph.extern
// CHECK: "graph.group"(%arg0, %arg1, %arg2)
// CHECK: tensor.pad {{.*}} low[0, 0, 1, 3] high[0, 0, 0, 2]
// CHECK: linalg.generic {indexing_maps = [#[[IMAGE]], #[[WEIGHT]],
// CHECK: arith.maximumf
// CHECK: arith.negf
// CHECK: graph.choice = "triton{m=64 n=64 k=32{{.*}}graph.window

// TILE-LABEL: func.func private @product
// TILE-SAME: tile.flops = 14745600 : i64, tile.grid = 8 : i64
// TILE-DAG: memref.reinterpret_cast %arg0 to offset: [0], sizes: [25600], strides: [1]
// TILE-DAG: memref.reinterpret_cast %arg1 to offset: [0], sizes: [288, 128], strides: [1, 288]
// TILE: arith.divui {{.*}} : vector<64x1xindex>
// TILE: scf.for
// TILE: arith.divui {{.*}} : index
// TILE: arith.cmpi sge, {{.*}} : vector<64x1xindex>
// TILE: vector.gather {{.*}} : memref<25600xbf16>, vector<64x32xindex>, vector<64x32xi1>, vector<64x32xbf16>
// TILE: vector.transfer_read {{.*}} : memref<288x128xbf16, {{.*}}>, vector<32x64xbf16>
// TILE: vector.contract
// TILE: vector.transfer_write {{.*}} : vector<64x64xbf16>, memref<200x128xbf16
func.func @main(%x: tensor<1x32x20x40xbf16> {graph.strides = array<i64: 25600, 1, 1280, 32>}, %w: tensor<128x32x3x3xbf16> {graph.strides = array<i64: 288, 1, 96, 32>}, %bias: tensor<128xbf16>) -> (tensor<1x128x10x20xbf16> {graph.strides = array<i64: 25600, 1, 2560, 128>}) {
  %0 = "graph.extern"(%x, %w, %bias) {args = [unit, unit, unit, [2, 2], [1, 3], [1, 3], false, [0, 0], 1], callee = "aten.convolution.default", graph.choice = "triton{m=64 n=64 k=32}", kwargs = {}, reason = "library", strides = [array<i64: 25600, 1, 2560, 128>]} : (tensor<1x32x20x40xbf16>, tensor<128x32x3x3xbf16>, tensor<128xbf16>) -> tensor<1x128x10x20xbf16>
  %1 = "graph.group"(%0) ({
  ^bb0(%a: tensor<1x128x10x20xbf16>):
    %o = tensor.empty() : tensor<1x128x10x20xbf16>
    %r = linalg.generic {indexing_maps = [affine_map<(n, c, i, j) -> (n, c, i, j)>, affine_map<(n, c, i, j) -> (n, c, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a : tensor<1x128x10x20xbf16>) outs(%o : tensor<1x128x10x20xbf16>) {
    ^bb0(%p: bf16, %u: bf16):
      %zero = arith.constant 0.0 : bf16
      %m = arith.maximumf %p, %zero : bf16
      %s = arith.negf %m : bf16
      linalg.yield %s : bf16
    } -> tensor<1x128x10x20xbf16>
    "graph.yield"(%r) : (tensor<1x128x10x20xbf16>) -> ()
  }) {sym_name = "relu_neg"} : (tensor<1x128x10x20xbf16>) -> tensor<1x128x10x20xbf16>
  return %1 : tensor<1x128x10x20xbf16>
}

// -----

// Without a choice it stays: none of Lamina's was measured.
// CHECK-LABEL: func.func @main
// CHECK: "graph.extern"
// CHECK-NOT: "graph.group"
// TILE: plan.call
func.func @main(%x: tensor<1x32x20x40xbf16> {graph.strides = array<i64: 25600, 1, 1280, 32>}, %w: tensor<128x32x1x1xbf16>) -> tensor<1x128x20x40xbf16> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 102400, 1, 5120, 128>]} : (tensor<1x32x20x40xbf16>, tensor<128x32x1x1xbf16>) -> tensor<1x128x20x40xbf16>
  return %0 : tensor<1x128x20x40xbf16>
}
