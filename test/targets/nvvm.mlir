// Hand-written code of one thread, taken down to every level; resources and PTX are checked with no GPU.
// RUN: opt-driver %s --target=nvvm:sm_90a --emit=nvvm | FileCheck %s --check-prefix=NVVM
// RUN: opt-driver %s --target=nvvm:sm_90a --emit=ptx | FileCheck %s --check-prefix=PTX
// RUN: opt-driver %s --target=nvvm:sm_80 --emit=ptx | FileCheck %s --check-prefix=OLD
// RUN: opt-driver %s --target=nvvm:sm_90a --emit=sass | FileCheck %s --check-prefix=SASS
// RUN: not opt-driver %s --target=nvvm:sm_90a --emit=asm 2>&1 | FileCheck %s --check-prefix=LEVEL
// RUN: not opt-driver %s --target=nvvm:sm_70 --emit=ptx 2>&1 | FileCheck %s --check-prefix=CHIP
// The same as one pipeline: a Lamina kernel, then what lamina.targets.nvvm.backend.lowering_pipeline() returns.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-expand-math{target=nvvm},lamina-gpu-to-nvvm,gpu.module(expand-strided-metadata,arith-expand,convert-scf-to-cf,convert-math-to-llvm,convert-gpu-to-nvvm{use-bare-ptr-memref-call-conv=1 index-bitwidth=64},reconcile-unrealized-casts))' | FileCheck %s --check-prefix=NVVM

// NVVM: llvm.mlir.global internal @__wg_softmax_0() {addr_space = 3 : i32, alignment = 16 : i64}
// NVVM-LABEL: llvm.func @softmax(
// NVVM-SAME: !llvm.ptr {llvm.align = 16 : i64, llvm.noalias, llvm.nonnull, llvm.readonly}
// NVVM-SAME: nvvm.kernel, nvvm.maxntid = array<i32: 256, 1, 1>
// NVVM-NOT: {{(scf|vector|memref|arith|math|gpu|tile)[.][a-z_]+ }}
// NVVM: nvvm.shfl.sync
// NVVM: nvvm.barrier
// NVVM: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"

// 16 bytes at a time, once; the exponent clamped in the instruction that finds it; two conversions in one; nothing called.
// PTX: .target sm_90a
// PTX-LABEL: .visible .entry softmax(
// PTX-NOT: {{call|[.]local}}
// PTX-COUNT-2: ld.global.nc.v4.b32
// PTX-NOT: ld.global
// PTX: max.NaN.f32
// PTX: shfl.sync.bfly.b32
// PTX: bar.sync
// PTX-COUNT-16: ex2.approx.ftz.f32
// PTX-COUNT-16: div.full.f32
// PTX-COUNT-8: cvt.rn.bf16x2.f32
// PTX-COUNT-2: st.global.v4.b32
// PTX-NOT: {{call|ex2|ld[.]global|st[.]global}}

// OLD: .target sm_80
// OLD-COUNT-2: ld.global.nc.v4
// OLD-COUNT-8: cvt.rn.bf16x2.f32

// One exponential each, one reciprocal for the row, the clamps folded into the multiply-add.
// SASS-COUNT-2: LDG.E.128.CONSTANT
// SASS: FFMA.SAT
// SASS: MUFU.EX2
// SASS: MUFU.RCP
// SASS-NOT: {{MUFU.RCP|LDL|STL|CALL}}
// SASS: STG.E.128

// LEVEL: error: nvvm:sm_90a has no level 'asm' for kernels (levels: gpu, nvvm, llvm, ptx, sass)
// CHIP: error: sm_70 is too old: the oldest GPU that Lamina compiles for is sm_80
module attributes {gpu.container_module} {
gpu.module @kernels {
  gpu.func @softmax(%x: memref<16777216xbf16>, %o: memref<16777216xbf16>)
      workgroup(%red: memref<8xf32, #gpu.address_space<workgroup>>, %red2: memref<8xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %tid = gpu.thread_id x
    %bid = gpu.block_id x
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %c4096 = arith.constant 4096 : index
    %c2048 = arith.constant 2048 : index
    %i16 = arith.constant 16 : i32
    %i8 = arith.constant 8 : i32
    %i4 = arith.constant 4 : i32
    %i2 = arith.constant 2 : i32
    %i1 = arith.constant 1 : i32
    %i32 = arith.constant 32 : i32
    %c0 = arith.constant 0 : index
    %row = arith.muli %bid, %c4096 overflow<nsw, nuw> : index
    %col = arith.muli %tid, %c8 overflow<nsw, nuw> : index
    %p0 = arith.addi %row, %col overflow<nsw, nuw> : index
    %p1 = arith.addi %p0, %c2048 overflow<nsw, nuw> : index
    %v0 = vector.load %x[%p0] {alignment = 16 : i64} : memref<16777216xbf16>, vector<8xbf16>
    %v1 = vector.load %x[%p1] {alignment = 16 : i64} : memref<16777216xbf16>, vector<8xbf16>
    %f0 = arith.extf %v0 : vector<8xbf16> to vector<8xf32>
    %f1 = arith.extf %v1 : vector<8xbf16> to vector<8xf32>
    %m = arith.maximumf %f0, %f1 : vector<8xf32>
    %m0 = vector.reduction <maximumf>, %m : vector<8xf32> into f32
    %s16, %o16 = gpu.shuffle xor %m0, %i16, %i32 : f32
    %m1 = arith.maximumf %m0, %s16 : f32
    %s8, %o8 = gpu.shuffle xor %m1, %i8, %i32 : f32
    %m2 = arith.maximumf %m1, %s8 : f32
    %s4, %o4 = gpu.shuffle xor %m2, %i4, %i32 : f32
    %m3 = arith.maximumf %m2, %s4 : f32
    %s2, %o2 = gpu.shuffle xor %m3, %i2, %i32 : f32
    %m4 = arith.maximumf %m3, %s2 : f32
    %s1, %o1 = gpu.shuffle xor %m4, %i1, %i32 : f32
    %m5 = arith.maximumf %m4, %s1 : f32
    %lane = arith.remui %tid, %c32 : index
    %warp = arith.divui %tid, %c32 : index
    %first = arith.cmpi eq, %lane, %c0 : index
    scf.if %first {
      memref.store %m5, %red[%warp] : memref<8xf32, #gpu.address_space<workgroup>>
    }
    gpu.barrier
    %w = vector.load %red[%c0] {alignment = 16 : i64} : memref<8xf32, #gpu.address_space<workgroup>>, vector<8xf32>
    %mx = vector.reduction <maximumf>, %w : vector<8xf32> into f32
    %mb = vector.broadcast %mx : f32 to vector<8xf32>
    %d0 = arith.subf %f0, %mb : vector<8xf32>
    %d1 = arith.subf %f1, %mb : vector<8xf32>
    %e0 = math.exp %d0 : vector<8xf32>
    %e1 = math.exp %d1 : vector<8xf32>
    %ss = arith.addf %e0, %e1 fastmath<reassoc,contract> : vector<8xf32>
    %t0 = vector.reduction <add>, %ss fastmath<reassoc> : vector<8xf32> into f32
    %u16, %q16 = gpu.shuffle xor %t0, %i16, %i32 : f32
    %t1 = arith.addf %t0, %u16 : f32
    %u8, %q8 = gpu.shuffle xor %t1, %i8, %i32 : f32
    %t2 = arith.addf %t1, %u8 : f32
    %u4, %q4 = gpu.shuffle xor %t2, %i4, %i32 : f32
    %t3 = arith.addf %t2, %u4 : f32
    %u2, %q2 = gpu.shuffle xor %t3, %i2, %i32 : f32
    %t4 = arith.addf %t3, %u2 : f32
    %u1, %q1 = gpu.shuffle xor %t4, %i1, %i32 : f32
    %t5 = arith.addf %t4, %u1 : f32
    scf.if %first {
      memref.store %t5, %red2[%warp] : memref<8xf32, #gpu.address_space<workgroup>>
    }
    gpu.barrier
    %z = vector.load %red2[%c0] {alignment = 16 : i64} : memref<8xf32, #gpu.address_space<workgroup>>, vector<8xf32>
    %sm = vector.reduction <add>, %z fastmath<reassoc> : vector<8xf32> into f32
    %sb = vector.broadcast %sm : f32 to vector<8xf32>
    %r0 = arith.divf %e0, %sb : vector<8xf32>
    %r1 = arith.divf %e1, %sb : vector<8xf32>
    %b0 = arith.truncf %r0 : vector<8xf32> to vector<8xbf16>
    %b1 = arith.truncf %r1 : vector<8xf32> to vector<8xbf16>
    vector.store %b0, %o[%p0] {alignment = 16 : i64} : memref<16777216xbf16>, vector<8xbf16>
    vector.store %b1, %o[%p1] {alignment = 16 : i64} : memref<16777216xbf16>, vector<8xbf16>
    gpu.return
  }
}
}
