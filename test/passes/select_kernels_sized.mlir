// A product with a symbolic number of rows: Lamina's kernel, the sizes that it reads, and the library where these may need 64 bits.
// RUN: opt-driver %s --pass-pipeline='lamina-select-kernels{schedule="triton{m=64 n=64 k=64}"}' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='lamina-select-kernels{schedule="triton{m=64 n=64 k=64}" wide-sizes}' | FileCheck %s --check-prefix=WIDE
// RUN: opt-driver %s --pass-pipeline='lamina-select-kernels{schedule="triton{m=64 n=64 k=64}"},lamina-plan,lamina-size-ranges{target=nvvm:sm_90a},lamina-tile{target=nvvm:sm_90a}' | FileCheck %s --check-prefix=TILE
// RUN: opt-driver %s --pass-pipeline='lamina-select-kernels{target=nvvm:sm_90a schedule="triton{m=128 n=128 k=64}"},lamina-plan,lamina-size-ranges{target=nvvm:sm_90a},lamina-tile{target=nvvm:sm_90a}' | FileCheck %s --check-prefix=FEW

// CHECK-LABEL: func.func @main
// CHECK-NOT: graph.extern
// CHECK: "graph.group"(%arg0, %arg1)
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: arith.maximumf
// CHECK: graph.choice = "triton{m=64 n=64}"

// WIDE-LABEL: func.func @main
// WIDE: "graph.extern"
// WIDE: "graph.group"

// The last argument holds the sizes: rows for masks, programs for the grid.
// TILE: func.func private @{{.*}}, %[[SIZES:arg[0-9]+]]: memref<{{[0-9]+}}xi32>)
// TILE-SAME: tile.grid = "-2*((-s0~4096)//(64))"
// TILE-SAME: tile.sizes = [{{.*}}"s0~4096"
// TILE: memref.load %[[SIZES]]
// TILE: vector.contract

// Calls with few rows have a kernel of their own: each launch says for which sizes it is.
// FEW: "plan.launch"({{.*}}kernel = @[[KERNEL:.*]]_to_[[MOST:[0-9]+]], {{.*}}when = {{\[\[}}"s0~4096", [[MOST]]]]
// FEW-NEXT: "plan.launch"({{.*}}kernel = @[[KERNEL]], {{.*}}when = []
// FEW: func.func private @[[KERNEL]]_to_[[MOST]](
// FEW: func.func private @[[KERNEL]](
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%x: tensor<?x256xbf16, ["s0~4096", 256]>, %w: tensor<256x128xbf16>) -> tensor<?x128xbf16, ["s0~4096", 128]> {
  %m = "graph.extern"(%x, %w) {callee = "aten.mm.default", reason = "library", args = [unit, unit], kwargs = {}, strides = [array<i64: 128, 1>]} : (tensor<?x256xbf16, ["s0~4096", 256]>, tensor<256x128xbf16>) -> tensor<?x128xbf16, ["s0~4096", 128]>
  %b = "graph.group"(%m) ({
  ^bb0(%in: tensor<?x128xbf16, ["s0~4096", 128]>):
    %n = "graph.size"() {size = "s0~4096"} : () -> index
    %e = tensor.empty(%n) : tensor<?x128xbf16, ["s0~4096", 128]>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%in : tensor<?x128xbf16, ["s0~4096", 128]>) outs(%e : tensor<?x128xbf16, ["s0~4096", 128]>) {
    ^bb0(%i: bf16, %o: bf16):
      %c = arith.constant 0.0 : bf16
      %y = arith.maximumf %i, %c : bf16
      linalg.yield %y : bf16
    } -> tensor<?x128xbf16, ["s0~4096", 128]>
    "graph.yield"(%r) : (tensor<?x128xbf16, ["s0~4096", 128]>) -> ()
  }) {sym_name = "relu"} : (tensor<?x128xbf16, ["s0~4096", 128]>) -> tensor<?x128xbf16, ["s0~4096", 128]>
  return %b : tensor<?x128xbf16, ["s0~4096", 128]>
}
