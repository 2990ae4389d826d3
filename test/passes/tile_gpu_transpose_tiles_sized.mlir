// A transpose of symbolic sizes goes through tiles as one of known sizes does: the row length is a value, and tiles end where the
// matrix does. A kernel of its own takes sizes that are multiples of an access, and has wide accesses as those of known sizes do;
// the traced call needs it if it has such sizes. Nothing is assumed of others.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-size-ranges{target=nvvm:sm_90a},lamina-tile{target=nvvm:sm_90a})' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-size-ranges{target=nvvm:sm_90a},lamina-tile{target=nvvm:sm_90a},lamina-distribute)' | FileCheck %s --check-prefix=GPU

#id = affine_map<(i, j) -> (i, j)>
#t = affine_map<(i, j) -> (j, i)>

// CHECK-LABEL: func.func private @any_by_8(
// CHECK-NOT: tile.later
// CHECK-SAME: tile.sizes = [{{.*}}, "8*((s0~512)/(8))", "8*((s1~1024)/(8))", "-((-1073741824)//(-((-((s0~512)/(8)))//(8))))"]
// CHECK-SAME: tile.teams = 32 : i64, tile.threads = 8 : i64, tile.vec = 8 : i64
// CHECK: "tile.transpose"

// CHECK-LABEL: func.func private @any(
// CHECK-SAME: tile.grid = "((-s0~512)//(64))*((-s1~1024)//(64))"
// CHECK-SAME: tile.teams = 4 : i64, tile.threads = 64 : i64, tile.vec = 1 : i64
// CHECK-DAG: %[[COLUMNS:.*]] = arith.minui %{{.*}}, %c64{{.*}} : index
// CHECK-DAG: %[[SQUARE:.*]] = memref.alloca() : memref<64x64xbf16>
// CHECK: "tile.transpose"(%{{.*}}, %{{.*}}, %[[LANES:.*]], %[[ROWS:.*]], %[[SQUARE]], %[[STRIDE:.*]]) : (memref<?xbf16>, index, index, index, memref<64x64xbf16>, index) -> ()
// CHECK: vector.create_mask %[[LANES]] : vector<64xi1>
// CHECK: scf.for %{{.*}} = %c0{{.*}} to %[[ROWS]] step %c1
// CHECK: vector.transfer_read %[[SQUARE]]
// CHECK: vector.transfer_write
// CHECK: } {tile.shared}
// CHECK-NOT: tile.gather

// GPU-LABEL: gpu.func @any_by_8(
// GPU: vector.load %{{.*}} {alignment = 16 : i64} : memref<?xbf16>, vector<8xbf16>
// GPU: vector.store %{{.*}} {alignment = 16 : i64} : memref<?xbf16>, vector<8xbf16>

// GPU-LABEL: gpu.func @any(
// GPU-SAME: workgroup(%{{.*}} : memref<64x66xbf16, #gpu.address_space<workgroup>>)
// Rows are whole accesses at some calls. Eight rows of a tile are then written at once; those that are left over are guarded one by one.
// GPU: %[[SOME:.*]] = arith.ori
// GPU: %[[ALL:.*]] = arith.ori %[[SOME]]
// GPU: %[[REST:.*]] = arith.remui %[[ALL]], %c8{{.*}} : index
// GPU: %[[ALIGNED:.*]] = arith.cmpi eq, %[[REST]], %c0{{.*}} : index
// GPU: scf.if %[[ALIGNED]] {
// GPU-COUNT-2: vector.load %{{.*}} {alignment = 16 : i64} : memref<?xbf16>, vector<8xbf16>
// GPU-NOT: vector.load
// GPU: } else {
// GPU-COUNT-16: memref.load %{{.*}} : memref<?xbf16>
// GPU: }
// GPU: gpu.barrier
// GPU: scf.for %{{.*}} step %c8
// GPU-COUNT-8: memref.load %{{.*}} : memref<64x66xbf16, #gpu.address_space<workgroup>>
// GPU-COUNT-8: memref.store %{{.*}} : memref<?xbf16>
// GPU: scf.for %{{.*}} step %c8
// GPU-COUNT-8: memref.load %{{.*}} : memref<64x66xbf16, #gpu.address_space<workgroup>>
// GPU: memref.store %{{.*}} : memref<?xbf16>
func.func private @any(%x: tensor<?x?xbf16, ["s0~512", "s1~1024"]>) -> tensor<?x?xbf16, ["s1~1024", "s0~512"]> attributes {graph.kernel} {
  %m = "graph.size"() {size = "s0~512"} : () -> index
  %n = "graph.size"() {size = "s1~1024"} : () -> index
  %e = tensor.empty(%n, %m) : tensor<?x?xbf16, ["s1~1024", "s0~512"]>
  %r = linalg.generic {indexing_maps = [#t, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x?xbf16, ["s0~512", "s1~1024"]>) outs(%e : tensor<?x?xbf16, ["s1~1024", "s0~512"]>) {
  ^bb0(%a: bf16, %o: bf16):
    %0 = arith.addf %a, %a : bf16
    linalg.yield %0 : bf16
  } -> tensor<?x?xbf16, ["s1~1024", "s0~512"]>
  return %r : tensor<?x?xbf16, ["s1~1024", "s0~512"]>
}

// An image of which rows are no multiples: that kernel is compiled when a call first needs it.
// CHECK-LABEL: func.func private @image_by_4(
// CHECK-SAME: tile.later
// CHECK-LABEL: func.func private @image(
// CHECK-NOT: tile.later
// CHECK-SAME: tile.vec = 4 : i64
#nhwc = affine_map<(n, p, c) -> (n, c, p)>
#nchw = affine_map<(n, p, c) -> (n, p, c)>
func.func private @image(%x: tensor<?x32x?xf32, ["s0~2", 32, "s1~9*s2~11"]>) -> tensor<?x?x32xf32, ["s0~2", "s1~9*s2~11", 32]> attributes {graph.kernel} {
  %b = "graph.size"() {size = "s0~2"} : () -> index
  %p = "graph.size"() {size = "s1~9*s2~11"} : () -> index
  %e = tensor.empty(%b, %p) : tensor<?x?x32xf32, ["s0~2", "s1~9*s2~11", 32]>
  %r = linalg.generic {indexing_maps = [#nhwc, #nchw], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<?x32x?xf32, ["s0~2", 32, "s1~9*s2~11"]>) outs(%e : tensor<?x?x32xf32, ["s0~2", "s1~9*s2~11", 32]>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %a : f32
    linalg.yield %0 : f32
  } -> tensor<?x?x32xf32, ["s0~2", "s1~9*s2~11", 32]>
  return %r : tensor<?x?x32xf32, ["s0~2", "s1~9*s2~11", 32]>
}

// Rows of 8*s0 elements start at multiples of 16 bytes, on both sides.
// CHECK-NOT: @eights_by
// CHECK-LABEL: func.func private @eights(
// CHECK-SAME: tile.teams = 32 : i64, tile.threads = 8 : i64, tile.vec = 8 : i64
// CHECK: "tile.transpose"

// GPU-LABEL: gpu.func @eights
// GPU: vector.load %{{.*}} {alignment = 16 : i64} : memref<?xbf16>, vector<8xbf16>
// GPU: vector.store %{{.*}} {alignment = 16 : i64} : memref<?xbf16>, vector<8xbf16>
func.func private @eights(%x: tensor<?x?xbf16, ["8*s0~64", "16*s1~64"]>) -> tensor<?x?xbf16, ["16*s1~64", "8*s0~64"]> attributes {graph.kernel} {
  %m = "graph.size"() {size = "8*s0~64"} : () -> index
  %n = "graph.size"() {size = "16*s1~64"} : () -> index
  %e = tensor.empty(%n, %m) : tensor<?x?xbf16, ["16*s1~64", "8*s0~64"]>
  %r = linalg.generic {indexing_maps = [#t, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x?xbf16, ["8*s0~64", "16*s1~64"]>) outs(%e : tensor<?x?xbf16, ["16*s1~64", "8*s0~64"]>) {
  ^bb0(%a: bf16, %o: bf16):
    %0 = arith.addf %a, %a : bf16
    linalg.yield %0 : bf16
  } -> tensor<?x?xbf16, ["16*s1~64", "8*s0~64"]>
  return %r : tensor<?x?xbf16, ["16*s1~64", "8*s0~64"]>
}
