// Convolutions of images whose batch, height and width each call decides: strips of columns, and a product of pixels by features.
// RUN: opt-driver %s --pass-pipeline='lamina-select-kernels{target=nvvm:sm_90a schedule="triton{m=64 n=64 k=64}"}' --split-input-file | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='lamina-select-kernels{target=nvvm:sm_90a wide-sizes}' --split-input-file | FileCheck %s --check-prefix=WIDE
// RUN: opt-driver %s --pass-pipeline='lamina-select-kernels{target=nvvm:sm_90a schedule="triton{m=64 n=64 k=64}"},lamina-plan,lamina-tile{target=nvvm:sm_90a}' --split-input-file | FileCheck %s --check-prefix=TILE

// The image is padded up to the end of the padding, whatever of it the last window reaches.
// CHECK-LABEL: func.func @main
// CHECK-NOT: graph.extern
// CHECK: "graph.group"(%arg0, %{{.*}}) ({
// CHECK: tensor.pad {{.*}} low[0, 0, 1, 1] high[0, 0, 1, 1]
// CHECK: iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]
// CHECK: graph.window
// WIDE-LABEL: func.func @main
// WIDE: "graph.extern"

// Strips have 14 columns, as those of typical rows. What the last one of a row has after the end is neither read nor stored; the
// memory of the sizes holds the elements of an image, so that none has more than 32 bits count.
// TILE: func.func private @convolution
// TILE-SAME: tile.grid = "-2*((-s1~56)//(14))*s0~8*s1~56"
// TILE-SAME: tile.sizes = [{{.*}}"64*s0~8*s1~56*s1~56"
// TILE: scf.for
// TILE: vector.transfer_read {{.*}}, %{{.*}} {in_bounds = [true]}
// TILE-COUNT-14: vector.transfer_write
func.func @main(%x: tensor<?x64x?x?xbf16, ["s0~8", 64, "s1~56", "s1~56"]> {graph.strides = ["64*s1~56*s1~56", 1, "64*s1~56", 64]}, %w: tensor<64x1x3x3xbf16>) -> (tensor<?x64x?x?xbf16, ["s0~8", 64, "s1~56", "s1~56"]> {graph.strides = ["64*s1~56*s1~56", 1, "64*s1~56", 64]}) {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 64], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [["64*s1~56*s1~56", 1, "64*s1~56", 64]]} : (tensor<?x64x?x?xbf16, ["s0~8", 64, "s1~56", "s1~56"]>, tensor<64x1x3x3xbf16>) -> tensor<?x64x?x?xbf16, ["s0~8", 64, "s1~56", "s1~56"]>
  return %0 : tensor<?x64x?x?xbf16, ["s0~8", 64, "s1~56", "s1~56"]>
}

// -----

// Of stride 2: the size of the result is a quotient. The image is gathered, under the bounds of its padding.
// CHECK-LABEL: func.func @main
// CHECK-NOT: graph.extern
// CHECK: "graph.group"(%arg0, %arg1)
// CHECK: iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]
// CHECK: graph.choice = "triton{m=64 n=64}"
// WIDE-LABEL: func.func @main
// WIDE: "graph.extern"
// TILE: func.func private @
// TILE-SAME: tile.sizes = [
// TILE: scf.for
// TILE: vector.gather {{.*}} : memref<?xbf16>
// TILE: vector.contract
func.func @main(%x: tensor<?x32x?x20xbf16, ["s0~8", 32, "s1~20", 20]> {graph.strides = ["640*s1~20", 1, 640, 32]}, %w: tensor<64x32x3x3xbf16> {graph.strides = array<i64: 288, 1, 96, 32>}) -> (tensor<?x64x?x10xbf16, ["s0~8", 64, "((s1~20 - 1)//(2)) + 1", 10]> {graph.strides = ["640*((s1~20 - 1)//(2)) + 640", 1, 640, 64]}) {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [2, 2], [1, 1], [1, 1], false, [0, 0], 1], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [["640*((s1~20 - 1)//(2)) + 640", 1, 640, 64]]} : (tensor<?x32x?x20xbf16, ["s0~8", 32, "s1~20", 20]>, tensor<64x32x3x3xbf16>) -> tensor<?x64x?x10xbf16, ["s0~8", 64, "((s1~20 - 1)//(2)) + 1", 10]>
  return %0 : tensor<?x64x?x10xbf16, ["s0~8", 64, "((s1~20 - 1)//(2)) + 1", 10]>
}
