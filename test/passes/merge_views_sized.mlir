// Views of symbolic sizes compose as those of numbers do.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-merge-views,lamina-dce)' | FileCheck %s

// CHECK-LABEL: func.func @heads
// CHECK: tensor.expand_shape %arg0 {{\[}}[0], [1], [2, 3]] {{.*}} into tensor<?x?x12x64xf32, ["s1~197", "s0~32", 12, 64]>
// CHECK: %[[MOVED:.*]] = linalg.transpose {{.*}} permutation = [1, 2, 0, 3]
// CHECK-NEXT: return %[[MOVED]] : tensor<?x12x?x64xf32, ["s0~32", 12, "s1~197", 64]>
func.func @heads(%x: tensor<?x?x768xf32, ["s1~197", "s0~32", 768]>) -> tensor<?x12x?x64xf32, ["s0~32", 12, "s1~197", 64]> {
  %n = "graph.size"() {size = "s0~32"} : () -> index
  %l = "graph.size"() {size = "s1~197"} : () -> index
  %h = "graph.size"() {size = "12*s0~32"} : () -> index
  %flat = tensor.collapse_shape %x [[0], [1, 2]] : tensor<?x?x768xf32, ["s1~197", "s0~32", 768]> into tensor<?x?xf32, ["s1~197", "768*s0~32"]>
  %split = tensor.expand_shape %flat [[0], [1, 2]] output_shape [%l, %h, 64] : tensor<?x?xf32, ["s1~197", "768*s0~32"]> into tensor<?x?x64xf32, ["s1~197", "12*s0~32", 64]>
  %e = tensor.empty(%h, %l) : tensor<?x?x64xf32, ["12*s0~32", "s1~197", 64]>
  %t = linalg.transpose ins(%split : tensor<?x?x64xf32, ["s1~197", "12*s0~32", 64]>) outs(%e : tensor<?x?x64xf32, ["12*s0~32", "s1~197", 64]>) permutation = [1, 0, 2]
  %r = tensor.expand_shape %t [[0, 1], [2], [3]] output_shape [%n, 12, %l, 64] : tensor<?x?x64xf32, ["12*s0~32", "s1~197", 64]> into tensor<?x12x?x64xf32, ["s0~32", 12, "s1~197", 64]>
  return %r : tensor<?x12x?x64xf32, ["s0~32", 12, "s1~197", 64]>
}

// CHECK-LABEL: func.func @there_and_back
// CHECK-NEXT: return %arg0
func.func @there_and_back(%x: tensor<?x?x16xf32, ["s0~8", "s1~128", 16]>) -> tensor<?x?x16xf32, ["s0~8", "s1~128", 16]> {
  %n = "graph.size"() {size = "s0~8"} : () -> index
  %l = "graph.size"() {size = "s1~128"} : () -> index
  %flat = tensor.collapse_shape %x [[0, 1], [2]] : tensor<?x?x16xf32, ["s0~8", "s1~128", 16]> into tensor<?x16xf32, ["s0~8*s1~128", 16]>
  %r = tensor.expand_shape %flat [[0, 1], [2]] output_shape [%n, %l, 16] : tensor<?x16xf32, ["s0~8*s1~128", 16]> into tensor<?x?x16xf32, ["s0~8", "s1~128", 16]>
  return %r : tensor<?x?x16xf32, ["s0~8", "s1~128", 16]>
}
