// Groups are those of static sizes: what shares rows is known by the symbols.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-fuse)' | FileCheck %s

// Softmax along rows of a length that each call decides is one group; the sizes that it needs stand in it.
// CHECK-LABEL: func.func @softmax
// CHECK: "graph.group"(%arg0) ({
// CHECK: graph.size
// CHECK: math.exp
// CHECK: arith.divf
// CHECK: }) {sym_name = "{{.*}}"} : (tensor<?x?xf32, ["s0~8", "s1~128"]>) -> tensor<?x?xf32, ["s0~8", "s1~128"]>
// CHECK-NOT: graph.group
// CHECK: return
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @softmax(%x: tensor<?x?xf32, ["s0~8", "s1~128"]>) -> tensor<?x?xf32, ["s0~8", "s1~128"]> {
  %zero = arith.constant 0.0 : f32
  %n = "graph.size"() {size = "s0~8"} : () -> index
  %m = "graph.size"() {size = "s1~128"} : () -> index
  %e = tensor.empty(%n, %m) : tensor<?x?xf32, ["s0~8", "s1~128"]>
  %p = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x?xf32, ["s0~8", "s1~128"]>) outs(%e : tensor<?x?xf32, ["s0~8", "s1~128"]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<?x?xf32, ["s0~8", "s1~128"]>
  %r = tensor.empty(%n) : tensor<?xf32, ["s0~8"]>
  %f = linalg.fill ins(%zero : f32) outs(%r : tensor<?xf32, ["s0~8"]>) -> tensor<?xf32, ["s0~8"]>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%p : tensor<?x?xf32, ["s0~8", "s1~128"]>) outs(%f : tensor<?xf32, ["s0~8"]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s0~8"]>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %s : tensor<?x?xf32, ["s0~8", "s1~128"]>, tensor<?xf32, ["s0~8"]>) outs(%e : tensor<?x?xf32, ["s0~8", "s1~128"]>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.divf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<?x?xf32, ["s0~8", "s1~128"]>
  return %y : tensor<?x?xf32, ["s0~8", "s1~128"]>
}

// Rows of s0 and of s2 are not the same ones, though the hints are: two groups.
// CHECK-LABEL: func.func @apart
// CHECK: "graph.group"(%arg0)
// CHECK: tensor<?xf32, ["s0~8"]>
// CHECK: "graph.group"(%arg1)
// CHECK: tensor<?xf32, ["s2~8"]>
#one = affine_map<(d0) -> (d0)>
func.func @apart(%x: tensor<?xf32, ["s0~8"]>, %z: tensor<?xf32, ["s2~8"]>) -> (tensor<?xf32, ["s0~8"]>, tensor<?xf32, ["s2~8"]>) {
  %n = "graph.size"() {size = "s0~8"} : () -> index
  %m = "graph.size"() {size = "s2~8"} : () -> index
  %e = tensor.empty(%n) : tensor<?xf32, ["s0~8"]>
  %f = tensor.empty(%m) : tensor<?xf32, ["s2~8"]>
  %p = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%x : tensor<?xf32, ["s0~8"]>) outs(%e : tensor<?xf32, ["s0~8"]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s0~8"]>
  %q = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%z : tensor<?xf32, ["s2~8"]>) outs(%f : tensor<?xf32, ["s2~8"]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s2~8"]>
  return %p, %q : tensor<?xf32, ["s0~8"]>, tensor<?xf32, ["s2~8"]>
}
