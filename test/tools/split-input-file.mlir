// RUN: opt-driver %s --split-input-file --pass-pipeline=cse | FileCheck %s
// RUN: not opt-driver %s 2>&1 | FileCheck %s --check-prefix=WHOLE
// RUN: opt-driver %s --split-input-file --pass-pipeline=cse --print-ir-tree-dir=%t.tree > /dev/null
// RUN: FileCheck %s --check-prefix=TREE --input-file %t.tree/piece_2/00_cse.mlir

// Pieces are modules of their own, printed with the marks between them.

// CHECK: func.func @f() {
// CHECK: {{^}}// -----{{$}}
// CHECK-NEXT: module {
// CHECK-NEXT: func.func @f() -> i32 {
// WHOLE: split-input-file.mlir:19:1: error: redefinition of symbol named 'f'
// TREE: // after cse
// TREE: func.func @f() -> i32
func.func @f() { return }

// -----

func.func @f() -> i32 {
  %0 = arith.constant 1 : i32
  return %0 : i32
}
