// Kernels of symbolic sizes: whole vectors in a loop whose end is computed, and a rest (tile_covering.mlir). The values of the sizes are one more
// argument.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile{target=cpu})' | FileCheck %s

// A pointwise kernel has one axis of s0*s1 elements, in memory whose rows are known to follow each other.
// CHECK-LABEL: func.func private @relu(%arg0: memref<f32>, %arg1: memref<f32>, %arg2: memref<1xi64>)
// CHECK-SAME: tile.bytes = "8*s0~8*s1~128"
// CHECK-SAME: tile.grid = "-((-s0~8*s1~128)//(8192))"
// CHECK-SAME: tile.sizes = ["s0~8*s1~128"]
// CHECK: %[[LOADED:.*]] = memref.load %arg2
// CHECK: %[[COUNT:.*]] = arith.index_cast %[[LOADED]]
// CHECK: memref.reinterpret_cast %arg0 to offset: [0], sizes: [%[[COUNT]]], strides: [1] : memref<f32> to memref<?xf32>
// CHECK: %[[LEFT:.*]] = arith.remui %[[END:.*]], %c64
// CHECK: %[[WHOLE:.*]] = arith.subi %[[END]], %[[LEFT]]
// CHECK: scf.for %{{.*}} = %{{.*}} to %[[WHOLE]] step %c64
// CHECK-NOT: create_mask
// CHECK: scf.for %{{.*}} = %[[WHOLE]] to %[[NARROW:.*]] step %c8
// CHECK-NOT: create_mask
// CHECK: scf.if
// CHECK: %[[REST:.*]] = arith.subi %[[END]], %[[NARROW]]
// CHECK: vector.create_mask %[[REST]] : vector<8xi1>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func private @relu(%x: tensor<?x?xf32, ["s0~8", "s1~128"]>) -> tensor<?x?xf32, ["s0~8", "s1~128"]> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %n = "graph.size"() {size = "s0~8"} : () -> index
  %m = "graph.size"() {size = "s1~128"} : () -> index
  %e = tensor.empty(%n, %m) : tensor<?x?xf32, ["s0~8", "s1~128"]>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x?xf32, ["s0~8", "s1~128"]>) outs(%e : tensor<?x?xf32, ["s0~8", "s1~128"]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.maximumf %a, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<?x?xf32, ["s0~8", "s1~128"]>
  return %r : tensor<?x?xf32, ["s0~8", "s1~128"]>
}


// A row's sum: whole vectors first, in parts that are added up in f64, then the rest.
// CHECK-LABEL: func.func private @sum(%arg0: memref<f32>, %arg1: memref<f32>, %arg2: memref<6xi64>)
// CHECK-SAME: tile.grid = "-((-s0~8)//(max(1, ((8192)//(s1~128)))))"
// CHECK: scf.for {{.*}} step %c1024
// CHECK: scf.for {{.*}} step %c64
// CHECK: scf.for {{.*}} step %c8
// CHECK-NOT: create_mask
// CHECK: scf.if
// CHECK: vector.create_mask
// CHECK: arith.select
// CHECK: vector.reduction <add>
func.func private @sum(%x: tensor<?x?xf32, ["s0~8", "s1~128"]>) -> tensor<?xf32, ["s0~8"]> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %n = "graph.size"() {size = "s0~8"} : () -> index
  %e = tensor.empty(%n) : tensor<?xf32, ["s0~8"]>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32, ["s0~8"]>) -> tensor<?xf32, ["s0~8"]>
  %r = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x?xf32, ["s0~8", "s1~128"]>) outs(%f : tensor<?xf32, ["s0~8"]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s0~8"]>
  return %r : tensor<?xf32, ["s0~8"]>
}


// A row that a number bounds is one masked block, whose end is computed.
// CHECK-LABEL: func.func private @first_eight
// CHECK-SAME: tile.sizes = [{{.*}}"min(8, s1~128)"
// CHECK: vector.create_mask %{{.*}} : vector<8xi1>
// CHECK-NOT: scf.for
// CHECK: vector.reduction <add>
func.func private @first_eight(%x: tensor<?x?xf32, ["s0~8", "s1~128"]>) -> tensor<?xf32, ["s0~8"]> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %n = "graph.size"() {size = "s0~8"} : () -> index
  %m = "graph.size"() {size = "min(8, s1~128)"} : () -> index
  %first = tensor.extract_slice %x[0, 0] [%n, %m] [1, 1] : tensor<?x?xf32, ["s0~8", "s1~128"]> to tensor<?x?xf32, ["s0~8", "min(8, s1~128)"]>
  %e = tensor.empty(%n) : tensor<?xf32, ["s0~8"]>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32, ["s0~8"]>) -> tensor<?xf32, ["s0~8"]>
  %r = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%first : tensor<?x?xf32, ["s0~8", "min(8, s1~128)"]>) outs(%f : tensor<?xf32, ["s0~8"]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s0~8"]>
  return %r : tensor<?xf32, ["s0~8"]>
}


// What is known of a size stays: its multiple of 16.
// CHECK-LABEL: func.func private @sixteens
// CHECK-SAME: tile.sizes = ["16*s0~8"]
func.func private @sixteens(%x: tensor<?x16xf32, ["s0~8", 16]>) -> tensor<?x16xf32, ["s0~8", 16]> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %n = "graph.size"() {size = "s0~8"} : () -> index
  %e = tensor.empty(%n) : tensor<?x16xf32, ["s0~8", 16]>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x16xf32, ["s0~8", 16]>) outs(%e : tensor<?x16xf32, ["s0~8", 16]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.maximumf %a, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<?x16xf32, ["s0~8", 16]>
  return %r : tensor<?x16xf32, ["s0~8", 16]>
}
