// RUN: opt-driver %s | FileCheck %s
// RUN: opt-driver %s | opt-driver --pass-pipeline='builtin.module(canonicalize,cse)' | FileCheck %s
// RUN: opt-driver %S/Inputs/plan-wrong.mlir --split-input-file --verify-diagnostics

// Every op of the plan dialect parses and prints unchanged, and upstream's CSE and canonicalization leave a program as it is: two equal
// buffers are two buffers, and a launch whose results nobody names is not dead.

// CHECK: "plan.program"() ({
// CHECK-NEXT: %[[X:.*]] = "plan.input"() {index = 0 : i64} : () -> memref<4x8xf32>
// CHECK-NEXT: %[[W:.*]] = "plan.constant"() {value = dense<2.000000e+00> : tensor<8x8xf32>} : () -> memref<8x8xf32>
// CHECK-NEXT: %[[T:.*]] = "plan.alloc"() {bytes = 128 : i64, offset = 0 : i64} : () -> memref<4x8xf32>
// CHECK-NEXT: %[[U:.*]] = "plan.alloc"() {bytes = 128 : i64, offset = 128 : i64} : () -> memref<4x8xf32>
// CHECK-NEXT: %[[O:.*]] = "plan.output"() {index = 0 : i64} : () -> memref<4x8xf32>
// CHECK-NEXT: "plan.launch"(%[[X]], %[[T]]) {kernel = @relu, n_out = 1 : i64} : (memref<4x8xf32>, memref<4x8xf32>) -> ()
// CHECK-NEXT: %[[V:.*]] = "plan.view"(%[[T]]) {offset = 8 : i64} : (memref<4x8xf32>) -> memref<2x4xf32, strided<[16, 2]>>
// CHECK-NEXT: "plan.call"(%[[T]], %[[W]], %[[O]])
// CHECK-SAME: callee = "aten.mm.default"
// CHECK-SAME: n_out = 1 : i64, reason = "library"
// CHECK-NEXT: %[[S:.*]]:2 = "plan.call"(%[[U]])
// CHECK-SAME: callee = "aten.sort.default"
// CHECK-SAME: (memref<4x8xf32>) -> (memref<4x8xf32>, memref<4x8xi64>)
// CHECK-NEXT: "plan.return"(%[[O]], %[[V]], %[[S]]#1)
// CHECK-NEXT: }) {arena_bytes = 256 : i64, sym_name = "main"} : () -> ()
"plan.program"() ({
  %x = "plan.input"() {index = 0 : i64} : () -> memref<4x8xf32>
  %w = "plan.constant"() {value = dense<2.0> : tensor<8x8xf32>} : () -> memref<8x8xf32>
  %t = "plan.alloc"() {offset = 0 : i64, bytes = 128 : i64} : () -> memref<4x8xf32>
  %u = "plan.alloc"() {offset = 128 : i64, bytes = 128 : i64} : () -> memref<4x8xf32>
  %o = "plan.output"() {index = 0 : i64} : () -> memref<4x8xf32>
  "plan.launch"(%x, %t) {kernel = @relu, n_out = 1 : i64} : (memref<4x8xf32>, memref<4x8xf32>) -> ()
  %v = "plan.view"(%t) {offset = 8 : i64} : (memref<4x8xf32>) -> memref<2x4xf32, strided<[16, 2]>>
  "plan.call"(%t, %w, %o) {callee = "aten.mm.default", reason = "library", args = [unit, unit], kwargs = {}, n_out = 1 : i64} : (memref<4x8xf32>, memref<8x8xf32>, memref<4x8xf32>) -> ()
  %s:2 = "plan.call"(%u) {callee = "aten.sort.default", reason = "fallback", args = [unit], kwargs = {}, n_out = 0 : i64} : (memref<4x8xf32>) -> (memref<4x8xf32>, memref<4x8xi64>)
  "plan.return"(%o, %v, %s#1) : (memref<4x8xf32>, memref<2x4xf32, strided<[16, 2]>>, memref<4x8xi64>) -> ()
}) {sym_name = "main", arena_bytes = 256 : i64} : () -> ()
