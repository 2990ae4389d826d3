// Simplification keeps the sizes that types name.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-simplify)' | FileCheck %s

// A factor of ones and two negations are gone.
// CHECK-LABEL: func.func @main
// CHECK-NOT: linalg
// CHECK: return %arg0, %arg0 : tensor<?x16xf32, ["s0~8", 16]>, tensor<?x16xf32, ["s0~8", 16]>
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%x: tensor<?x16xf32, ["s0~8", 16]>) -> (tensor<?x16xf32, ["s0~8", 16]>, tensor<?x16xf32, ["s0~8", 16]>) {
  %one = arith.constant 1.0 : f32
  %n = "graph.size"() {size = "s0~8"} : () -> index
  %e = tensor.empty(%n) : tensor<?x16xf32, ["s0~8", 16]>
  %f = linalg.fill ins(%one : f32) outs(%e : tensor<?x16xf32, ["s0~8", 16]>) -> tensor<?x16xf32, ["s0~8", 16]>
  %p = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %f : tensor<?x16xf32, ["s0~8", 16]>, tensor<?x16xf32, ["s0~8", 16]>) outs(%e : tensor<?x16xf32, ["s0~8", 16]>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<?x16xf32, ["s0~8", 16]>
  %q = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x16xf32, ["s0~8", 16]>) outs(%e : tensor<?x16xf32, ["s0~8", 16]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.negf %a : f32
    %1 = arith.negf %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x16xf32, ["s0~8", 16]>
  return %p, %q : tensor<?x16xf32, ["s0~8", 16]>, tensor<?x16xf32, ["s0~8", 16]>
}

// -----

// Upstream computes the sizes of a split that remains of a split and a merge.
// CHECK-LABEL: func.func @main
// CHECK-NOT: arith.muli
// CHECK: %[[N:.*]] = "graph.size"() {size = "s0~8*s1~128"} : () -> index
// CHECK: tensor.expand_shape %arg0 {{\[}}[0, 1], [2]] output_shape [%[[N]], 4, 16]
func.func @main(%x: tensor<?x16xf32, ["4*s0~8*s1~128", 16]>) -> tensor<?x4x16xf32, ["s0~8*s1~128", 4, 16]> {
  %m = "graph.size"() {size = "s0~8"} : () -> index
  %n = "graph.size"() {size = "s1~128"} : () -> index
  %0 = tensor.expand_shape %x [[0, 1, 2], [3]] output_shape [%m, %n, 4, 16] : tensor<?x16xf32, ["4*s0~8*s1~128", 16]> into tensor<?x?x4x16xf32, ["s0~8", "s1~128", 4, 16]>
  %1 = tensor.collapse_shape %0 [[0, 1], [2], [3]] : tensor<?x?x4x16xf32, ["s0~8", "s1~128", 4, 16]> into tensor<?x4x16xf32, ["s0~8*s1~128", 4, 16]>
  return %1 : tensor<?x4x16xf32, ["s0~8*s1~128", 4, 16]>
}

// -----

// A pad of a pad is one, by the sum of their sizes.
// CHECK-LABEL: func.func @main
// CHECK: %[[BOTH:.*]] = "graph.size"() {size = "s1~9 + s2~7"}
// CHECK: tensor.pad %arg0 low[0] high[%[[BOTH]]]
// CHECK-NOT: affine.apply
func.func @main(%x: tensor<?xf32, ["s0~8"]>) -> tensor<?xf32, ["s0~8 + s1~9 + s2~7"]> {
  %zero = arith.constant 0.0 : f32
  %n = "graph.size"() {size = "s1~9"} : () -> index
  %m = "graph.size"() {size = "s2~7"} : () -> index
  %0 = tensor.pad %x low[0] high[%n] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<?xf32, ["s0~8"]> to tensor<?xf32, ["s0~8 + s1~9"]>
  %1 = tensor.pad %0 low[0] high[%m] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<?xf32, ["s0~8 + s1~9"]> to tensor<?xf32, ["s0~8 + s1~9 + s2~7"]>
  return %1 : tensor<?xf32, ["s0~8 + s1~9 + s2~7"]>
}

// -----

// An index that is clamped by the size of the dimension needs no check; one that a larger size clamps does.
// CHECK-LABEL: func.func @main
// CHECK: tensor.extract %arg0[%{{.*}}] {graph.checked}
// CHECK: tensor.extract %arg1[%{{[0-9a-z]+}}] :
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<?xf32, ["s0~8"]>, %y: tensor<?xf32, ["s1~9"]>, %at: tensor<4xi32>) -> tensor<4xf32> {
  %last = "graph.size"() {size = "s0~8 - 1"} : () -> index
  %wide = arith.index_cast %last : index to i64
  %most = arith.trunci %wide : i64 to i32
  %least = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4xf32>
  %p = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%at : tensor<4xi32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: i32, %acc: f32):
    %0 = arith.minsi %a, %most : i32
    %1 = arith.maxsi %0, %least : i32
    %2 = arith.index_cast %1 : i32 to index
    %3 = tensor.extract %x[%2] : tensor<?xf32, ["s0~8"]>
    %4 = tensor.extract %y[%2] : tensor<?xf32, ["s1~9"]>
    %5 = arith.addf %3, %4 : f32
    linalg.yield %5 : f32
  } -> tensor<4xf32>
  return %p : tensor<4xf32>
}

// -----

// A reflection at both ends of a dimension is inside it: neither a check nor a wrap of negative indices is left.
// CHECK-LABEL: func.func @main
// CHECK-NOT: arith.cmpi
// CHECK-NOT: arith.select
// CHECK: tensor.extract %arg0[%{{.*}}] {graph.checked}
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<?xf32, ["s0~8"]>) -> tensor<?xf32, ["s0~8 + 2"]> {
  %n = "graph.size"() {size = "s0~8"} : () -> index
  %last = "graph.size"() {size = "s0~8 - 1"} : () -> index
  %size = arith.index_cast %n : index to i64
  %most = arith.index_cast %last : index to i64
  %padded = "graph.size"() {size = "s0~8 + 2"} : () -> index
  %zero = arith.constant 0 : i64
  %back = arith.constant -1 : i64
  %e = tensor.empty(%padded) : tensor<?xf32, ["s0~8 + 2"]>
  %p = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<?xf32, ["s0~8 + 2"]>) {
  ^bb0(%acc: f32):
    %0 = linalg.index 0 : index
    %1 = arith.index_cast %0 : index to i64
    %2 = arith.addi %1, %back : i64
    %3 = math.absi %2 : i64
    %4 = arith.subi %most, %3 : i64
    %5 = math.absi %4 : i64
    %6 = arith.subi %most, %5 : i64
    %7 = arith.cmpi slt, %6, %zero : i64
    %8 = arith.addi %6, %size : i64
    %9 = arith.select %7, %8, %6 : i64
    %10 = arith.index_cast %9 : i64 to index
    %11 = tensor.extract %x[%10] : tensor<?xf32, ["s0~8"]>
    linalg.yield %11 : f32
  } -> tensor<?xf32, ["s0~8 + 2"]>
  return %p : tensor<?xf32, ["s0~8 + 2"]>
}

// -----

// By two more than the dimension has, it is not.
// CHECK-LABEL: func.func @main
// CHECK: tensor.extract %arg0[%{{[0-9a-z]+}}] :
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<?xf32, ["s0~8"]>) -> tensor<?xf32, ["s0~8 + 4"]> {
  %last = "graph.size"() {size = "s0~8 - 1"} : () -> index
  %most = arith.index_cast %last : index to i64
  %padded = "graph.size"() {size = "s0~8 + 4"} : () -> index
  %back = arith.constant -2 : i64
  %e = tensor.empty(%padded) : tensor<?xf32, ["s0~8 + 4"]>
  %p = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<?xf32, ["s0~8 + 4"]>) {
  ^bb0(%acc: f32):
    %0 = linalg.index 0 : index
    %1 = arith.index_cast %0 : index to i64
    %2 = arith.addi %1, %back : i64
    %3 = math.absi %2 : i64
    %4 = arith.subi %most, %3 : i64
    %5 = math.absi %4 : i64
    %6 = arith.subi %most, %5 : i64
    %7 = arith.index_cast %6 : i64 to index
    %8 = tensor.extract %x[%7] : tensor<?xf32, ["s0~8"]>
    linalg.yield %8 : f32
  } -> tensor<?xf32, ["s0~8 + 4"]>
  return %p : tensor<?xf32, ["s0~8 + 4"]>
}

// -----

// A size that is cast to 32 bits may wrap, and be negative: its clamp from above proves nothing.
// CHECK-LABEL: func.func @main
// CHECK: tensor.extract %arg0[%{{[0-9a-z]+}}] :
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<?xf32, ["s0~8"]>, %at: tensor<4xi32>) -> tensor<4xf32> {
  %last = "graph.size"() {size = "s0~8 - 1"} : () -> index
  %most = arith.index_cast %last : index to i32
  %least = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4xf32>
  %p = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%at : tensor<4xi32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: i32, %acc: f32):
    %0 = arith.maxsi %a, %least : i32
    %1 = arith.minsi %0, %most : i32
    %2 = arith.index_cast %1 : i32 to index
    %3 = tensor.extract %x[%2] : tensor<?xf32, ["s0~8"]>
    linalg.yield %3 : f32
  } -> tensor<4xf32>
  return %p : tensor<4xf32>
}
