// A scan is one kernel with what follows it, and with the reductions of its own rows before it; with no reduction of other rows. Scans along the same
// columns are one kernel, also where one reads the other at its own place.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fuse)' | FileCheck %s

#id = affine_map<(r, c) -> (r, c)>

// CHECK-LABEL: func.func @followed
// CHECK: "graph.group"
// CHECK: graph.scan
// CHECK: arith.maximumf
// CHECK-NOT: "graph.group"
// CHECK: return
func.func @followed(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x64xf32>
  %s = "graph.scan"(%x) {combine = "arith.addf", dim = 1 : i64} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<4x64xf32>) outs(%e : tensor<4x64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.maximumf %a, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>

// CHECK-LABEL: func.func @of_shares
// CHECK: "graph.group"
// CHECK: arith.addf
// CHECK: graph.scan
// CHECK-NOT: "graph.group"
// CHECK: return
func.func @of_shares(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x64xf32>
  %er = tensor.empty() : tensor<4xf32>
  %zr = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x64xf32>) outs(%zr : tensor<4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<4xf32>
  %share = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %sum : tensor<4x64xf32>, tensor<4xf32>) outs(%e : tensor<4x64xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.divf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<4x64xf32>
  %s = "graph.scan"(%share) {combine = "arith.addf", dim = 1 : i64} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  return %s : tensor<4x64xf32>
}

// -----

#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>

// CHECK-LABEL: func.func @reduced
// CHECK: "graph.group"
// CHECK: graph.scan
// CHECK: "graph.group"
// CHECK: arith.maximumf
// CHECK: return
func.func @reduced(%x: tensor<4x64xf32>) -> tensor<4xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<4x64xf32>
  %er = tensor.empty() : tensor<4xf32>
  %lr = linalg.fill ins(%lowest : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %s = "graph.scan"(%x) {combine = "arith.addf", dim = 1 : i64} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%s : tensor<4x64xf32>) outs(%lr : tensor<4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.maximumf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<4xf32>
  return %m : tensor<4xf32>
}

// -----

#id = affine_map<(r, c) -> (r, c)>

// CHECK-LABEL: func.func @scan_of_a_scan
// CHECK: "graph.group"
// CHECK: "graph.scan"{{.*}}arith.maximumf
// CHECK: arith.mulf
// CHECK: "graph.scan"{{.*}}arith.addf
// CHECK-NOT: "graph.group"
// CHECK: return
func.func @scan_of_a_scan(%x: tensor<4x64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %e = tensor.empty() : tensor<4x64xf32>
  %s = "graph.scan"(%x) {combine = "arith.maximumf", dim = 1 : i64} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%s, %x : tensor<4x64xf32>, tensor<4x64xf32>) outs(%e : tensor<4x64xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<4x64xf32>
  %t = "graph.scan"(%y) {combine = "arith.addf", dim = 1 : i64} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  return %s, %t : tensor<4x64xf32>, tensor<4x64xf32>
}

// -----

// CHECK-LABEL: func.func @along_both
// CHECK: "graph.group"
// CHECK: dim = 1
// CHECK: "graph.group"
// CHECK: dim = 0
// CHECK: return
func.func @along_both(%x: tensor<4x64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %s = "graph.scan"(%x) {combine = "arith.maximumf", dim = 1 : i64} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %t = "graph.scan"(%x) {combine = "arith.addf", dim = 0 : i64} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  return %s, %t : tensor<4x64xf32>, tensor<4x64xf32>
}

// -----

// A sort is one kernel with what its elements are computed from, and with what follows.
#id = affine_map<(r, c) -> (r, c)>

// CHECK-LABEL: func.func @sorted
// CHECK: "graph.group"
// CHECK: arith.xori
// CHECK: graph.sort
// CHECK: arith.addi
// CHECK-NOT: "graph.group"
// CHECK: return
func.func @sorted(%x: tensor<4x64xi64>) -> tensor<4x64xi64> {
  %all = arith.constant -1 : i64
  %e = tensor.empty() : tensor<4x64xi64>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x64xi64>) outs(%e : tensor<4x64xi64>) {
  ^bb0(%a: i64, %acc: i64):
    %0 = arith.xori %a, %all : i64
    linalg.yield %0 : i64
  } -> tensor<4x64xi64>
  %s = "graph.sort"(%y) {dim = 1 : i64} : (tensor<4x64xi64>) -> tensor<4x64xi64>
  %z = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<4x64xi64>) outs(%e : tensor<4x64xi64>) {
  ^bb0(%a: i64, %acc: i64):
    %0 = arith.addi %a, %a : i64
    linalg.yield %0 : i64
  } -> tensor<4x64xi64>
  return %z : tensor<4x64xi64>
}
