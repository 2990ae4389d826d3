// Convolutions of several groups, by graph.choice: in strips, whose features share what is read of their group's channels, or as one
// product of pixels by features for each group.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels{target=nvvm:sm_90a})' --split-input-file | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels{target=nvvm:sm_90a},lamina-plan,lamina-tile{target=nvvm:sm_90a})' --split-input-file | FileCheck %s --check-prefix=TILE

// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d7, d3 + d5, d4 + d6)>
// CHECK-DAG: #[[WEIGHT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d5, d6, d7, d1, d2)>
// CHECK-LABEL: func.func @main
// CHECK: sym_name = "weight"{{.*}} -> tensor<3x3x128xf32>
// CHECK: tensor.expand_shape {{.*}} : tensor<2x32x10x16xbf16> into tensor<2x8x4x10x16xbf16>
// CHECK: linalg.generic {indexing_maps = [#[[IMAGE]], #[[WEIGHT]],
// CHECK: graph.window
// CHECK-NOT: graph.extern

// A strip is a whole row of 14 columns, and reads all four channels of a group at once.
// TILE: func.func private @convolution
// TILE-SAME: tile.flops = 516096 : i64
// TILE-SAME: tile.threads = 8
// TILE-SAME: tile.vec = 4
// TILE: %[[SUMS:.*]]:14 = scf.for
// TILE-COUNT-14: tile.read_shared{{.*}} {jump = 4 : i64, length = 4 : i64}
// TILE-COUNT-14: vector.transfer_write
func.func @main(%x: tensor<2x32x8x14xbf16> {graph.strides = array<i64: 3584, 1, 448, 32>}, %w: tensor<32x4x3x3xbf16>) -> (tensor<2x32x8x14xbf16> {graph.strides = array<i64: 3584, 1, 448, 32>}) {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 8], callee = "aten.convolution.default", graph.choice = "direct", kwargs = {}, reason = "library", strides = [array<i64: 3584, 1, 448, 32>]} : (tensor<2x32x8x14xbf16>, tensor<32x4x3x3xbf16>) -> tensor<2x32x8x14xbf16>
  return %0 : tensor<2x32x8x14xbf16>
}

// -----

// The group is one more axis of the grid: 4 groups of 4 blocks.
// CHECK-LABEL: func.func @main
// CHECK: tensor.expand_shape {{.*}} into tensor<4x16x16x3x3xbf16>
// CHECK: graph.choice = "triton{m=64 n=16 k=32
// CHECK-SAME: graph.window
// CHECK-NOT: graph.extern
// TILE-LABEL: func.func private @product
// TILE-SAME: tile.grid = 16 : i64
// TILE: vector.gather {{.*}} vector<64x32xbf16>
// TILE: vector.contract
func.func @main(%x: tensor<2x64x8x14xbf16> {graph.strides = array<i64: 7168, 1, 896, 64>}, %w: tensor<64x16x3x3xbf16> {graph.strides = array<i64: 144, 1, 48, 16>}) -> (tensor<2x64x8x14xbf16> {graph.strides = array<i64: 7168, 1, 896, 64>}) {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 4], callee = "aten.convolution.default", graph.choice = "triton{m=64 n=16 k=32}", kwargs = {}, reason = "library", strides = [array<i64: 7168, 1, 896, 64>]} : (tensor<2x64x8x14xbf16>, tensor<64x16x3x3xbf16>) -> tensor<2x64x8x14xbf16>
  return %0 : tensor<2x64x8x14xbf16>
}

// -----

// Without a choice it stays: none of Lamina's was measured.
// CHECK-LABEL: func.func @main
// CHECK: "graph.extern"
// CHECK-NOT: "graph.group"
// TILE: plan.call
func.func @main(%x: tensor<2x64x8x14xbf16> {graph.strides = array<i64: 7168, 1, 896, 64>}, %w: tensor<64x16x3x3xbf16>) -> (tensor<2x64x8x14xbf16> {graph.strides = array<i64: 7168, 1, 896, 64>}) {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 4], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 7168, 1, 896, 64>]} : (tensor<2x64x8x14xbf16>, tensor<64x16x3x3xbf16>) -> tensor<2x64x8x14xbf16>
  return %0 : tensor<2x64x8x14xbf16>
}
