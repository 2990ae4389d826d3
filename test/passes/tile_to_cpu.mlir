// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-tile-to-cpu)' | FileCheck %s

// The entry reads the pointers, the body loops over programs; scratch memory stands in front of the loop.
// CHECK-LABEL: func.func @copy(
// CHECK-SAME: %[[BUFS:.*]]: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64)
// CHECK: llvm.getelementptr %[[BUFS]][1]
// CHECK: call @copy.body(
// CHECK-LABEL: func.func private @copy.body(
// CHECK-SAME: memref<64xf32> {llvm.noalias, llvm.readonly}, %{{.*}}: memref<64xf32> {llvm.noalias}, %[[LO:.*]]: index, %[[HI:.*]]: index)
// CHECK-SAME: llvm.linkage = #llvm.linkage<internal>
// CHECK-NOT: tile.
// CHECK: memref.alloca
// CHECK: scf.for %[[P:.*]] = %[[LO]] to %[[HI]]
// CHECK: arith.muli %[[P]]
func.func @copy(%x: memref<64xf32>, %o: memref<64xf32>) attributes {tile.grid = 4 : i64, tile.bytes = 512 : i64} {
  %p = "tile.program_id"() : () -> index
  %c16 = arith.constant 16 : index
  %t = memref.alloca() : memref<16xf32>
  %i = arith.muli %p, %c16 : index
  %v = vector.load %x[%i] : memref<64xf32>, vector<16xf32>
  vector.store %v, %o[%i] : memref<64xf32>, vector<16xf32>
  return
}

// -----

// Arguments that may share memory promise nothing; a view's writes count for its root.
// CHECK-LABEL: func.func private @shared.body(
// CHECK-SAME: %{{[a-z0-9]+}}: memref<64xf32>, %{{[a-z0-9]+}}: memref<64xf32> {llvm.noalias, llvm.readonly}, %{{[a-z0-9]+}}: memref<8x8xf32>,
func.func @shared(%x: memref<64xf32>, %y: memref<64xf32>, %o: memref<8x8xf32>)
    attributes {tile.grid = 1 : i64, tile.alias = array<i64: 0, 2>} {
  %c0 = arith.constant 0 : index
  %a = memref.load %x[%c0] : memref<64xf32>
  %f = memref.collapse_shape %o [[0, 1]] : memref<8x8xf32> into memref<64xf32>
  memref.store %a, %f[%c0] : memref<64xf32>
  memref.store %a, %x[%c0] : memref<64xf32>
  return
}

// -----

// A failed check stores its number + 1; the messages are the module's.
// CHECK: module attributes {cpu.checks = ["index out of range"]}
// CHECK-LABEL: func.func private @take.body(
// CHECK-SAME: %[[SLOT:[a-z0-9]+]]: memref<1xi64>
// CHECK: %[[ALL:.*]] = vector.reduction <and>, %[[OK:.*]] : vector<16xi1> into i1
// CHECK: %[[BAD:.*]] = arith.xori %[[ALL]]
// CHECK: scf.if %[[BAD]]
// CHECK: %[[ONE:.*]] = arith.constant 1 : i64
// CHECK: memref.store %[[ONE]], %[[SLOT]]
// CHECK: %[[NARROW:.*]] = arith.index_cast %{{.*}} : vector<16xindex> to vector<16xi32>
// CHECK: %[[READ:.*]] = vector.gather %{{.*}} [%[[NARROW]]], %[[OK]]
// LLVM may not leave out lanes of it.
// CHECK-NEXT: llvm.call_intrinsic "llvm.arithmetic.fence"(%[[READ]])
func.func @take(%x: memref<50xf32>, %i: memref<16xindex>, %o: memref<16xf32>) attributes {tile.grid = 1 : i64} {
  %c0 = arith.constant 0 : index
  %n = arith.constant dense<50> : vector<16xindex>
  %zero = arith.constant dense<0.0> : vector<16xf32>
  %k = vector.load %i[%c0] : memref<16xindex>, vector<16xindex>
  %ok = arith.cmpi ult, %k, %n : vector<16xindex>
  "tile.check"(%ok) {message = "index out of range"} : (vector<16xi1>) -> ()
  %v = "tile.gather"(%x, %k, %ok, %zero) : (memref<50xf32>, vector<16xindex>, vector<16xi1>, vector<16xf32>) -> vector<16xf32>
  vector.store %v, %o[%c0] : memref<16xf32>, vector<16xf32>
  return
}

// -----

// Every second element: a load of all between and a shuffle, no gather.
// CHECK-LABEL: func.func private @second.body(
// CHECK-NOT: vector.gather
// CHECK: vector.maskedload %{{.*}} : memref<100xf32>, vector<32xi1>, vector<32xf32> into vector<32xf32>
// CHECK: vector.shuffle %{{.*}} [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30]
func.func @second(%x: memref<100xf32>, %o: memref<16xf32>) attributes {tile.grid = 1 : i64} {
  %c0 = arith.constant 0 : index
  %step = vector.step : vector<16xindex>
  %two = arith.constant dense<2> : vector<16xindex>
  %all = arith.constant dense<true> : vector<16xi1>
  %zero = arith.constant dense<0.0> : vector<16xf32>
  %k = arith.muli %step, %two : vector<16xindex>
  %v = "tile.gather"(%x, %k, %all, %zero) : (memref<100xf32>, vector<16xindex>, vector<16xi1>, vector<16xf32>) -> vector<16xf32>
  vector.store %v, %o[%c0] : memref<16xf32>, vector<16xf32>
  return
}

// -----

// Backwards: a load of what lies between, under the mask of the lanes in memory's order, and a shuffle; no gather.
// CHECK-LABEL: func.func private @backwards.body(
// CHECK-NOT: vector.gather
// CHECK: %[[SKIPPED:.*]] = arith.subi %{{.*}}, %{{.*}} : index
// CHECK: vector.create_mask %[[SKIPPED]] : vector<8xi1>
// CHECK: vector.maskedload %{{.*}} : memref<100xf32>, vector<8xi1>, vector<8xf32> into vector<8xf32>
// CHECK: vector.shuffle %{{.*}} [7, 6, 5, 4, 3, 2, 1, 0]
func.func @backwards(%x: memref<100xf32>, %o: memref<8xf32>) attributes {tile.grid = 8 : i64} {
  %c0 = arith.constant 0 : index
  %step = vector.step : vector<8xindex>
  %back = arith.constant dense<-1> : vector<8xindex>
  %last = arith.constant 99 : index
  %start = vector.broadcast %last : index to vector<8xindex>
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %n = "tile.program_id"() : () -> index
  %some = vector.create_mask %n : vector<8xi1>
  %by = arith.muli %step, %back : vector<8xindex>
  %k = arith.addi %start, %by : vector<8xindex>
  %v = "tile.gather"(%x, %k, %some, %zero) : (memref<100xf32>, vector<8xindex>, vector<8xi1>, vector<8xf32>) -> vector<8xf32>
  vector.store %v, %o[%c0] : memref<8xf32>, vector<8xf32>
  return
}

// -----

// A 4x4 transpose: four loads, two rounds of interleaving, four stores; no block of rank 2 is left.
// CHECK-LABEL: func.func private @turn.body(
// CHECK-COUNT-4: vector.load %{{.*}} : memref<4x4xf32>, vector<4xf32>
// CHECK-COUNT-8: vector.shuffle %{{.*}}, %{{.*}} [{{0, 4, 1, 5|2, 6, 3, 7}}] : vector<4xf32>, vector<4xf32>
// CHECK-NOT: vector<4x4xf32>
// CHECK-COUNT-4: vector.store %{{.*}} : memref<4x4xf32>, vector<4xf32>
#t = affine_map<(d0, d1) -> (d1, d0)>
func.func @turn(%x: memref<4x4xf32>, %o: memref<4x4xf32>) attributes {tile.grid = 1 : i64} {
  %c0 = arith.constant 0 : index
  %pad = arith.constant 0.0 : f32
  %v = vector.transfer_read %x[%c0, %c0], %pad {in_bounds = [true, true], permutation_map = #t} : memref<4x4xf32>, vector<4x4xf32>
  vector.transfer_write %v, %o[%c0, %c0] {in_bounds = [true, true]} : vector<4x4xf32>, memref<4x4xf32>
  return
}

// -----

// bf16 is stored as integers and rounded in integers; a maximum with a constant is one comparison; stores past the cache are
// made where the memory is aligned.
// CHECK-LABEL: func.func private @relu.body(
// CHECK-SAME: %{{.*}}: memref<64xi16> {{{.*}}}, %[[O:[a-z0-9]+]]: memref<64xi16>
// CHECK: %[[AT:.*]] = memref.extract_aligned_pointer_as_index %[[O]]
// CHECK: arith.andi %[[AT]]
// CHECK: %[[ALIGNED:.*]] = arith.cmpi eq
// CHECK-NOT: bf16
// CHECK: arith.shli %{{.*}} : vector<64xi32>
// CHECK: arith.cmpf ogt
// CHECK-NEXT: arith.select
// CHECK: arith.trunci %{{.*}} : vector<64xi32> to vector<64xi16>
// CHECK: scf.if %[[ALIGNED]]
// CHECK: vector.store %{{.*}} {alignment = 64 : i64, nontemporal = true}
// CHECK: } else {
// CHECK-NEXT: vector.store %{{[^{]*}} : memref<64xi16>
// CHECK: llvm.fence seq_cst
func.func @relu(%x: memref<64xbf16>, %o: memref<64xbf16>) attributes {tile.grid = 1 : i64} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : vector<64xf32>
  %h = vector.load %x[%c0] : memref<64xbf16>, vector<64xbf16>
  %v = arith.extf %h : vector<64xbf16> to vector<64xf32>
  %r = arith.maximumf %v, %zero : vector<64xf32>
  %t = arith.truncf %r : vector<64xf32> to vector<64xbf16>
  vector.store %t, %o[%c0] {nontemporal = true, alignment = 64 : i64} : memref<64xbf16>, vector<64xbf16>
  return
}

// -----

// Divisors of the user are made safe, constants are left alone.
// CHECK-LABEL: func.func private @divide.body(
// CHECK: arith.cmpi eq
// CHECK: %[[SAFE:.*]] = arith.select %{{.*}} : i64
// CHECK: arith.floordivsi %{{.*}}, %[[SAFE]]
// CHECK-NOT: arith.select
// CHECK: arith.divsi
func.func @divide(%x: memref<2xi64>) attributes {tile.grid = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = arith.constant 3 : i64
  %a = memref.load %x[%c0] : memref<2xi64>
  %b = memref.load %x[%c1] : memref<2xi64>
  %q = arith.floordivsi %a, %b : i64
  %r = arith.divsi %q, %k : i64
  memref.store %r, %x[%c0] : memref<2xi64>
  return
}

// -----

// Where a conjunction selects no lane of a register, nothing is loaded: of 32 lanes, 8 to 23 are.
// CHECK-LABEL: func.func private @edge.body(
// CHECK-COUNT-2: vector.transfer_read %{{.*}} {in_bounds = [true]} : memref<64xf32>, vector<8xf32>
// CHECK-NOT: vector.transfer_read
// CHECK: vector.store %{{.*}} : memref<32xf32>, vector<32xf32>
func.func @edge(%x: memref<64xf32>, %on: memref<1xi1>, %o: memref<32xf32>) attributes {tile.grid = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c9 = arith.constant 9 : index
  %c20 = arith.constant 20 : index
  %pad = arith.constant 0.0 : f32
  %all = arith.constant dense<true> : vector<32xi1>
  %f = memref.load %on[%c0] : memref<1xi1>
  %flag = vector.broadcast %f : i1 to vector<32xi1>
  %to = vector.create_mask %c20 : vector<32xi1>
  %before = vector.create_mask %c9 : vector<32xi1>
  %from = arith.xori %before, %all : vector<32xi1>
  %within = arith.andi %from, %to : vector<32xi1>
  %mask = arith.andi %flag, %within : vector<32xi1>
  %v = vector.transfer_read %x[%c0], %pad, %mask {in_bounds = [true]} : memref<64xf32>, vector<32xf32>
  vector.store %v, %o[%c0] : memref<32xf32>, vector<32xf32>
  return
}
