// The whole way down as one pipeline: two passes of Lamina's, then what lamina.targets.cpu.backend.lowering_pipeline() returns.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-expand-math{ldexp=true},lamina-tile-to-cpu,func.func(lower-vector-multi-reduction{lowering-strategy=inner-reduction},convert-vector-to-scf{full-unroll=1},arith-expand),expand-strided-metadata,lower-affine,convert-scf-to-cf,convert-vector-to-llvm{reassociate-fp-reductions=1 vector-transpose-lowering=shuffle16x16},convert-math-to-llvm{approximate-log1p=0},convert-math-to-libm,convert-func-to-llvm{use-bare-ptr-memref-call-conv=1},convert-to-llvm,reconcile-unrealized-casts)' | FileCheck %s

// CHECK-LABEL: llvm.func @softmax_row(
// CHECK: llvm.load %{{.*}} : !llvm.ptr -> !llvm.ptr
// CHECK: llvm.call @softmax_row.body(%{{.*}}) : (!llvm.ptr, !llvm.ptr, i64, i64) -> ()
// CHECK-LABEL: llvm.func internal @softmax_row.body(
// CHECK-SAME: !llvm.ptr {llvm.noalias, llvm.readonly}, %{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: i64, %{{.*}}: i64)
// CHECK-NOT: {{(scf|vector|memref|arith|math|tile)[.]}}
// CHECK: llvm.intr.masked.load %{{.*}} {alignment = 4 : i32}
// CHECK: llvm.intr.vector.reduce.fmax({{.*}}fastmath<nnan, reassoc>
// CHECK: llvm.intr.fma
// CHECK: llvm.call_intrinsic "llvm.ldexp"
// CHECK: "llvm.intr.vector.reduce.fadd"{{.*}}fastmath<reassoc>
// CHECK: llvm.intr.masked.store %{{.*}} {alignment = 4 : i32}
// CHECK-NOT: {{(scf|vector|memref|arith|math|tile)[.]}}
func.func @softmax_row(%x: memref<8x50xf32>, %o: memref<8x50xf32>) attributes {tile.grid = 8 : i64} {
  %p = "tile.program_id"() : () -> index
  %c0 = arith.constant 0 : index
  %c50 = arith.constant 50 : index
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %mask = vector.create_mask %c50 : vector<64xi1>
  %v = vector.transfer_read %x[%p, %c0], %low, %mask {in_bounds = [true]} : memref<8x50xf32>, vector<64xf32>
  %m = vector.multi_reduction <maximumf>, %v, %low [0] : vector<64xf32> to f32
  %b = vector.broadcast %m : f32 to vector<64xf32>
  %d = arith.subf %v, %b : vector<64xf32>
  %e = math.exp %d : vector<64xf32>
  %s = vector.reduction <add>, %e : vector<64xf32> into f32
  %t = vector.broadcast %s : f32 to vector<64xf32>
  %r = arith.divf %e, %t : vector<64xf32>
  vector.transfer_write %r, %o[%p, %c0], %mask {in_bounds = [true]} : vector<64xf32>, memref<8x50xf32>
  return
}
