// RUN: opt-driver %s --pass-pipeline='lamina-distribute' --split-input-file | FileCheck %s
// RUN: opt-driver %S/Inputs/kernels_gpu.mlir --pass-pipeline='lamina-tile{target=nvvm:sm_90a}' | FileCheck %s --check-prefix=TILE

// A thread holds vec neighboring elements of every access; a mask is one predicate an access, and loads past it read element 0.
// CHECK-LABEL: gpu.func @masked
// CHECK-SAME: gpu.grid = 2 : i64, known_block_size = array<i32: 32, 1, 1>
// CHECK: %[[T:.*]] = gpu.thread_id x
// CHECK: %[[P:.*]] = gpu.block_id x
// CHECK: %[[OWN:.*]] = arith.muli %[[T]], %c4
// CHECK: %[[LEFT:.*]] = arith.minui
// CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %[[OWN]], %[[LEFT]] : index
// CHECK: %[[AT:.*]] = arith.addi %[[FIRST:.*]], %[[OWN]]
// CHECK: %[[SAFE:.*]] = arith.select %[[INSIDE]], %[[AT]], %c0
// CHECK: vector.load %arg0[%[[SAFE]]] {alignment = 16 : i64} : memref<200xf32>, vector<4xf32>
// CHECK: scf.if %[[INSIDE]] {
// CHECK-NEXT: vector.store %{{.*}}, %arg1[%{{.*}}] {alignment = 16 : i64}
func.func private @masked(%x: memref<200xf32>, %o: memref<200xf32>) attributes {tile.grid = 2 : i64, tile.threads = 32 : i64, tile.vec = 4 : i64, tile.chunks = 1 : i64, tile.pack = 1 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 16, 16>} {
  %p = "tile.program_id"() : () -> index
  %c128 = arith.constant 128 : index
  %c200 = arith.constant 200 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.muli %p, %c128 : index
  %left = arith.subi %c200, %first : index
  %count = arith.minui %left, %c128 : index
  %mask = vector.create_mask %count : vector<128xi1>
  %a = vector.transfer_read %x[%first], %zero, %mask {in_bounds = [true]} : memref<200xf32>, vector<128xf32>
  %b = arith.addf %a, %a : vector<128xf32>
  vector.transfer_write %b, %o[%first], %mask {in_bounds = [true]} : vector<128xf32>, memref<200xf32>
  return
}

// -----

// The access that a mask may leave out is stored first: at a program's end ptxas would take its load into the branch, behind all others.
// CHECK-LABEL: gpu.func @ends_first
// CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %{{.*}}, %c200
// CHECK: %[[FIRST:.*]] = vector.load
// CHECK: %[[LAST:.*]] = vector.load
// CHECK: scf.if %[[INSIDE]] {
// CHECK-NEXT: vector.store %[[LAST]]
// CHECK-NEXT: }
// CHECK-NEXT: vector.store %[[FIRST]]
func.func private @ends_first(%x: memref<200xf32>, %o: memref<200xf32>) attributes {tile.grid = 1 : i64, tile.threads = 32 : i64, tile.vec = 4 : i64, tile.chunks = 2 : i64, tile.pack = 1 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 16, 16>} {
  %c200 = arith.constant 200 : index
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %mask = vector.create_mask %c200 : vector<256xi1>
  %a = vector.transfer_read %x[%c0], %zero, %mask {in_bounds = [true]} : memref<200xf32>, vector<256xf32>
  vector.transfer_write %a, %o[%c0], %mask {in_bounds = [true]} : vector<256xf32>, memref<200xf32>
  return
}

// -----

// Memory that is aligned to 4 bytes alone is read element by element.
// CHECK-LABEL: gpu.func @unaligned
// CHECK-COUNT-4: memref.load %arg0
// CHECK: vector.from_elements
func.func private @unaligned(%x: memref<128xf32>, %o: memref<128xf32>) attributes {tile.grid = 1 : i64, tile.threads = 32 : i64, tile.vec = 4 : i64, tile.chunks = 1 : i64, tile.pack = 1 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 4, 16>} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %a = vector.transfer_read %x[%c0], %zero {in_bounds = [true]} : memref<128xf32>, vector<128xf32>
  vector.transfer_write %a, %o[%c0] {in_bounds = [true]} : vector<128xf32>, memref<128xf32>
  return
}

// -----

// A reduction: registers, the warp, and shared memory among two warps. Two that stand together share a barrier; one thread stores.
// CHECK-LABEL: gpu.func @reduce
// CHECK-SAME: workgroup(%{{.*}} : memref<2xf32, #gpu.address_space<workgroup>>, %{{.*}} : memref<2xf32, #gpu.address_space<workgroup>>)
// CHECK: arith.addf {{.*}} : vector<4xf32>
// CHECK: vector.extract
// CHECK-COUNT-10: gpu.shuffle xor
// CHECK: memref.store
// CHECK: memref.store
// CHECK: gpu.barrier
// CHECK-NOT: gpu.barrier
// CHECK: scf.if
// CHECK-NEXT: memref.store %{{.*}}, %arg1[%{{.*}}]
func.func private @reduce(%x: memref<4x512xf32>, %o: memref<4xf32>) attributes {tile.grid = 4 : i64, tile.threads = 64 : i64, tile.vec = 4 : i64, tile.chunks = 2 : i64, tile.pack = 1 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 16, 16>} {
  %p = "tile.program_id"() : () -> index
  %flat = memref.reinterpret_cast %x to offset: [0], sizes: [2048], strides: [1] : memref<4x512xf32> to memref<2048xf32>
  %c512 = arith.constant 512 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.muli %p, %c512 : index
  %a = vector.transfer_read %flat[%first], %zero {in_bounds = [true]} : memref<2048xf32>, vector<512xf32>
  %s = vector.reduction <add>, %a : vector<512xf32> into f32
  %m = vector.reduction <maximumf>, %a : vector<512xf32> into f32
  %r = arith.addf %s, %m : f32
  memref.store %r, %o[%p] : memref<4xf32>
  return
}

// -----

// Four programs share a CTA. The grid is no multiple of four: programs past it compute the last one again and store nothing.
// CHECK-LABEL: gpu.func @packed
// CHECK-SAME: gpu.grid = 2 : i64, known_block_size = array<i32: 128, 1, 1>
// CHECK: %[[EXISTS:.*]] = arith.cmpi ult, %[[P:.*]], %c7
// CHECK: arith.minui %[[P]], %c6
// CHECK: scf.if %[[EXISTS]]
func.func private @packed(%x: memref<7x32xf32>, %o: memref<7x32xf32>) attributes {tile.grid = 7 : i64, tile.threads = 32 : i64, tile.vec = 1 : i64, tile.chunks = 1 : i64, tile.pack = 4 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 16, 16>} {
  %p = "tile.program_id"() : () -> index
  %in = memref.reinterpret_cast %x to offset: [0], sizes: [224], strides: [1] : memref<7x32xf32> to memref<224xf32>
  %out = memref.reinterpret_cast %o to offset: [0], sizes: [224], strides: [1] : memref<7x32xf32> to memref<224xf32>
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.muli %p, %c32 : index
  %a = vector.transfer_read %in[%first], %zero {in_bounds = [true]} : memref<224xf32>, vector<32xf32>
  vector.transfer_write %a, %out[%first] {in_bounds = [true]} : vector<32xf32>, memref<224xf32>
  return
}

// -----

// Teams take turns in the rows of a column sum, and meet in shared memory.
// CHECK-LABEL: gpu.func @columns
// CHECK: %[[TEAM:.*]] = arith.divui %[[T:.*]], %c32
// CHECK: %[[SUM:.*]] = scf.for %[[I:.*]] = %c0{{.*}} to %c32{{.*}} step %c8{{.*}} iter_args
// CHECK: %[[TURN:.*]] = arith.muli %[[I]], %c2
// CHECK: arith.addi %[[TURN]], %[[TEAM]]
// CHECK-COUNT-8: memref.load
// CHECK-COUNT-8: arith.addf
// CHECK: memref.store
// CHECK: gpu.barrier
// CHECK: memref.load
// CHECK: arith.addf
func.func private @columns(%x: memref<64x32xf32>, %o: memref<32xf32>) attributes {tile.grid = 1 : i64, tile.threads = 32 : i64, tile.vec = 1 : i64, tile.chunks = 1 : i64, tile.pack = 1 : i64, tile.teams = 2 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 16, 16>} {
  %flat = memref.reinterpret_cast %x to offset: [0], sizes: [2048], strides: [1] : memref<64x32xf32> to memref<2048xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %none = arith.constant dense<0.0> : vector<32xf32>
  %part = scf.for %i = %c0 to %c64 step %c1 iter_args(%acc = %none) -> (vector<32xf32>) {
    %at = arith.muli %i, %c32 : index
    %a = vector.transfer_read %flat[%at], %zero {in_bounds = [true]} : memref<2048xf32>, vector<32xf32>
    %next = arith.addf %acc, %a : vector<32xf32>
    scf.yield %next : vector<32xf32>
  } {tile.shared}
  %sum = "tile.combine"(%part) {combine = "arith.addf"} : (vector<32xf32>) -> vector<32xf32>
  vector.transfer_write %sum, %o[%c0] {in_bounds = [true]} : vector<32xf32>, memref<32xf32>
  return
}

// -----

// Of 11 rows, both teams have five turns, whose loads are in flight together; the team without a sixth drops what it finds.
// CHECK-LABEL: gpu.func @columns_of_few_rows
// CHECK-NOT: scf.for
// CHECK-COUNT-5: vector.load
// CHECK-COUNT-5: arith.addf
// CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %[[LAST:.*]], %c11
// CHECK: arith.minui %[[LAST]], %c10
// CHECK: vector.load
// CHECK: %[[ALL:.*]] = arith.addf
// CHECK: arith.select %[[INSIDE]], %[[ALL]]
// CHECK: gpu.barrier
func.func private @columns_of_few_rows(%x: memref<11x64xf32>, %o: memref<64xf32>) attributes {tile.grid = 1 : i64, tile.threads = 32 : i64, tile.vec = 2 : i64, tile.chunks = 1 : i64, tile.pack = 1 : i64, tile.teams = 2 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 16, 16>} {
  %flat = memref.reinterpret_cast %x to offset: [0], sizes: [704], strides: [1] : memref<11x64xf32> to memref<704xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c11 = arith.constant 11 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %none = arith.constant dense<0.0> : vector<64xf32>
  %part = scf.for %i = %c0 to %c11 step %c1 iter_args(%acc = %none) -> (vector<64xf32>) {
    %at = arith.muli %i, %c64 : index
    %a = vector.transfer_read %flat[%at], %zero {in_bounds = [true]} : memref<704xf32>, vector<64xf32>
    %next = arith.addf %acc, %a : vector<64xf32>
    scf.yield %next : vector<64xf32>
  } {tile.shared}
  %sum = "tile.combine"(%part) {combine = "arith.addf"} : (vector<64xf32>) -> vector<64xf32>
  vector.transfer_write %sum, %o[%c0] {in_bounds = [true]} : vector<64xf32>, memref<64xf32>
  return
}

// -----

// Eight teams in a warp: shuffles join what they have found, and shared memory what the two warps have.
// CHECK-LABEL: gpu.func @columns_of_warps
// CHECK-COUNT-4: memref.load
// CHECK: gpu.shuffle xor
// CHECK: arith.addf
// CHECK: gpu.shuffle xor
// CHECK: arith.addf
// CHECK: gpu.shuffle xor
// CHECK: arith.addf
// CHECK: scf.if
// CHECK: memref.store
// CHECK: gpu.barrier
// CHECK-COUNT-2: memref.load
// CHECK: arith.addf
// CHECK-NOT: memref.load
func.func private @columns_of_warps(%x: memref<64x4xf32>, %o: memref<4xf32>) attributes {tile.grid = 1 : i64, tile.threads = 4 : i64, tile.vec = 1 : i64, tile.chunks = 1 : i64, tile.pack = 1 : i64, tile.teams = 16 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 16, 16>} {
  %flat = memref.reinterpret_cast %x to offset: [0], sizes: [256], strides: [1] : memref<64x4xf32> to memref<256xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %none = arith.constant dense<0.0> : vector<4xf32>
  %part = scf.for %i = %c0 to %c64 step %c1 iter_args(%acc = %none) -> (vector<4xf32>) {
    %at = arith.muli %i, %c4 : index
    %a = vector.transfer_read %flat[%at], %zero {in_bounds = [true]} : memref<256xf32>, vector<4xf32>
    %next = arith.addf %acc, %a : vector<4xf32>
    scf.yield %next : vector<4xf32>
  } {tile.shared}
  %sum = "tile.combine"(%part) {combine = "arith.addf"} : (vector<4xf32>) -> vector<4xf32>
  vector.transfer_write %sum, %o[%c0] {in_bounds = [true]} : vector<4xf32>, memref<4xf32>
  return
}

// -----

// Runs whose lengths are multiples of vec: a division an access says where it is; lanes that jump alone are one element.
// CHECK-LABEL: gpu.func @runs
// CHECK: %[[TURN:.*]] = arith.divui %{{.*}}, %c64
// CHECK: %[[JUMP:.*]] = arith.muli %[[TURN]], %c192
// CHECK: %[[AT:.*]] = arith.addi %{{.*}}, %[[JUMP]]
// CHECK: vector.load %arg0[%[[AT]]] {alignment = 16 : i64}
// CHECK: %[[ONE:.*]] = memref.load %arg1
// CHECK: vector.broadcast %[[ONE]]
// CHECK: vector.store {{.*}} {alignment = 16 : i64}
func.func private @runs(%x: memref<320xf32>, %w: memref<2xf32>, %o: memref<320xf32>) attributes {tile.grid = 1 : i64, tile.threads = 32 : i64, tile.vec = 4 : i64, tile.chunks = 1 : i64, tile.pack = 1 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 16, 16, 16>} {
  %c0 = arith.constant 0 : index
  %yes = arith.constant dense<true> : vector<128xi1>
  %a = "tile.read_runs"(%x, %c0, %c0, %yes) {along = 1 : i64, jumps = [192], lengths = [64]} : (memref<320xf32>, index, index, vector<128xi1>) -> vector<128xf32>
  %b = "tile.read_runs"(%w, %c0, %c0, %yes) {along = 0 : i64, jumps = [1], lengths = [64]} : (memref<2xf32>, index, index, vector<128xi1>) -> vector<128xf32>
  %r = arith.mulf %a, %b : vector<128xf32>
  "tile.write_runs"(%r, %o, %c0, %c0, %yes) {jumps = [192], lengths = [64]} : (vector<128xf32>, memref<320xf32>, index, index, vector<128xi1>) -> ()
  return
}

// -----

// Rows that start and end amid accesses: the second access, in the middle, is whole; what ends past memory is read element by element.
// CHECK-LABEL: gpu.func @window
// CHECK: vector.load %arg0
// CHECK: vector.load %arg0
// CHECK: scf.if
// CHECK: vector.load %arg0
// CHECK: else
// CHECK-COUNT-4: memref.load %arg0
// CHECK: scf.if
// CHECK-NEXT: vector.store {{.*}} {alignment = 16 : i64}
// CHECK: scf.if
// CHECK-COUNT-4: memref.store
// CHECK: vector.store {{.*}} {alignment = 16 : i64}
// CHECK: scf.if
func.func private @window(%x: memref<1001xf32>, %o: memref<1001xf32>) attributes {tile.grid = 3 : i64, tile.threads = 32 : i64, tile.vec = 4 : i64, tile.chunks = 3 : i64, tile.pack = 1 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 16, 16>} {
  %p = "tile.program_id"() : () -> index
  %c4 = arith.constant 4 : index
  %n = arith.constant 333 : index
  %zero = arith.constant 0.0 : f32
  %start = arith.muli %p, %n : index
  %low = arith.remui %start, %c4 : index
  %high = arith.addi %low, %n : index
  %whole = arith.divui %start, %c4 : index
  %first = arith.muli %whole, %c4 : index
  %mask = "tile.window"(%low, %high) {max_low = 3 : i64, min_high = 333 : i64} : (index, index) -> vector<384xi1>
  %a = vector.transfer_read %x[%first], %zero, %mask {in_bounds = [true]} : memref<1001xf32>, vector<384xf32>
  vector.transfer_write %a, %o[%first], %mask {in_bounds = [true]} : vector<384xf32>, memref<1001xf32>
  return
}

// -----

// Where several accesses may end past memory, one branch decides on all, so that the loads do not wait for each other.
// CHECK-LABEL: gpu.func @windows
// CHECK: arith.andi
// CHECK: scf.if
// CHECK-COUNT-3: vector.load %arg0
// CHECK: else
// CHECK: scf.if
// CHECK: vector.load %arg0
// CHECK: else
// CHECK-COUNT-4: memref.load %arg0
// CHECK: scf.if
// CHECK: vector.load %arg0
// CHECK: else
// CHECK-COUNT-4: memref.load %arg0
func.func private @windows(%x: memref<1001xf32>, %o: memref<1001xf32>) attributes {tile.grid = 3 : i64, tile.threads = 32 : i64, tile.vec = 4 : i64, tile.chunks = 3 : i64, tile.pack = 1 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 16, 16>} {
  %p = "tile.program_id"() : () -> index
  %c4 = arith.constant 4 : index
  %n = arith.constant 333 : index
  %zero = arith.constant 0.0 : f32
  %start = arith.muli %p, %n : index
  %low = arith.remui %start, %c4 : index
  %high = arith.addi %low, %n : index
  %whole = arith.divui %start, %c4 : index
  %first = arith.muli %whole, %c4 : index
  %mask = "tile.window"(%low, %high) {max_low = 3 : i64, min_high = 100 : i64} : (index, index) -> vector<384xi1>
  %a = vector.transfer_read %x[%first], %zero, %mask {in_bounds = [true]} : memref<1001xf32>, vector<384xf32>
  vector.transfer_write %a, %o[%first], %mask {in_bounds = [true]} : vector<384xf32>, memref<1001xf32>
  return
}

// -----

// Prefixes: of a thread's elements, of the warp's lanes by halves, and of two warps through shared memory.
// CHECK-LABEL: gpu.func @scan
// CHECK-SAME: workgroup(%{{.*}} : memref<2xi32, #gpu.address_space<workgroup>>)
// CHECK: arith.addi {{.*}} : i32
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK-NOT: gpu.shuffle
// CHECK: gpu.barrier
// CHECK-COUNT-2: memref.load {{.*}} : memref<2xi32, #gpu.address_space<workgroup>>
// CHECK-NOT: gpu.barrier
// CHECK: vector.store
func.func private @scan(%x: memref<128xi32>, %o: memref<128xi32>) attributes {tile.grid = 1 : i64, tile.threads = 64 : i64, tile.vec = 2 : i64, tile.chunks = 1 : i64, tile.pack = 1 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 16, 16>} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i32
  %a = vector.transfer_read %x[%c0], %zero {in_bounds = [true]} : memref<128xi32>, vector<128xi32>
  %y, %next = "tile.scan"(%a, %zero) {combine = "arith.addi"} : (vector<128xi32>, i32) -> (vector<128xi32>, i32)
  vector.transfer_write %y, %o[%c0] {in_bounds = [true]} : vector<128xi32>, memref<128xi32>
  return
}

// -----

// A recurrence exchanges two values for each of a scan's.
// CHECK-LABEL: gpu.func @recurrence
// CHECK-COUNT-10: gpu.shuffle xor
// CHECK-NOT: gpu.shuffle
// CHECK: gpu.barrier
// CHECK-COUNT-4: memref.load {{.*}} : memref<2xf32, #gpu.address_space<workgroup>>
// CHECK-NOT: gpu.barrier
// CHECK: vector.store
func.func private @recurrence(%x: memref<128xf32>, %d: memref<128xf32>, %o: memref<128xf32>) attributes {tile.grid = 1 : i64, tile.threads = 64 : i64, tile.vec = 2 : i64, tile.chunks = 1 : i64, tile.pack = 1 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 16, 16, 16>} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %a = vector.transfer_read %x[%c0], %zero {in_bounds = [true]} : memref<128xf32>, vector<128xf32>
  %b = vector.transfer_read %d[%c0], %zero {in_bounds = [true]} : memref<128xf32>, vector<128xf32>
  %y, %next = "tile.recurrence"(%a, %b, %zero) : (vector<128xf32>, vector<128xf32>, f32) -> (vector<128xf32>, f32)
  vector.transfer_write %y, %o[%c0] {in_bounds = [true]} : vector<128xf32>, memref<128xf32>
  return
}

// A row fits into the registers of its threads: one block, loaded once, no loop.
// TILE-LABEL: func.func private @softmax
// TILE-SAME: tile.chunks = 4 : i64
// TILE-SAME: tile.threads = 256 : i64, tile.vec = 4 : i64
// TILE: vector.transfer_read {{.*}} vector<4096xf32>
// TILE-NOT: transfer_read
// TILE-NOT: scf.for
// TILE: tile.exp_sum
// TILE: tile.exp_total
// TILE: vector.transfer_write

// -----

// What may be launched before the work before it has ended waits for that ahead of all else.
// CHECK-LABEL: gpu.func @dependent
// CHECK-SAME: tile.dependent
// CHECK-NOT: vector.load
// CHECK: nvvm.griddepcontrol wait
// CHECK-NEXT: nvvm.griddepcontrol launch_dependents
// CHECK: gpu.thread_id
func.func private @dependent(%x: memref<128xf32>, %o: memref<128xf32>) attributes {tile.grid = 1 : i64, tile.threads = 32 : i64, tile.vec = 4 : i64, tile.chunks = 1 : i64, tile.pack = 1 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 16, 16>, tile.dependent} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %a = vector.transfer_read %x[%c0], %zero {in_bounds = [true]} : memref<128xf32>, vector<128xf32>
  vector.transfer_write %a, %o[%c0] {in_bounds = [true]} : vector<128xf32>, memref<128xf32>
  return
}

// -----

// A sort: a thread's own pair; pairs from both ends, with the other thread, and the thread's own pair again.
// CHECK-LABEL: gpu.func @sort
// CHECK: arith.minsi
// CHECK: arith.maxsi
// CHECK-COUNT-4: gpu.shuffle xor
// CHECK: %[[UPPER:.*]] = arith.cmpi ne
// CHECK: %[[LESS:.*]] = arith.cmpi slt, %[[A:.*]], %[[B:.*]] : i64
// CHECK: %[[KEEP:.*]] = arith.xori %[[LESS]], %[[UPPER]] : i1
// CHECK: arith.select %[[KEEP]], %[[A]], %[[B]] : i64
// CHECK: arith.minsi
// CHECK: arith.maxsi
// CHECK-NOT: gpu.shuffle
func.func private @sort(%x: memref<4xi64>, %o: memref<4xi64>) attributes {tile.grid = 1 : i64, tile.threads = 2 : i64, tile.vec = 2 : i64, tile.chunks = 1 : i64, tile.pack = 16 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 16, 16>} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i64
  %a = vector.transfer_read %x[%c0], %zero {in_bounds = [true]} : memref<4xi64>, vector<4xi64>
  %s = "tile.sort"(%a) : (vector<4xi64>) -> vector<4xi64>
  vector.transfer_write %s, %o[%c0] {in_bounds = [true]} : vector<4xi64>, memref<4xi64>
  return
}

// -----

// A scan of logarithms of sums: maxima, and sums relative to them, of which that of the lesser maximum is scaled.
// CHECK-LABEL: gpu.func @log_sums
// CHECK: %[[TOP:.*]] = arith.maximumf
// CHECK: %[[POWER:.*]] = math.exp
// CHECK: arith.mulf %{{.*}}, %[[POWER]]
// CHECK-COUNT-2: gpu.shuffle xor
// CHECK-NOT: gpu.shuffle
// CHECK: math.log
func.func private @log_sums(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tile.grid = 1 : i64, tile.threads = 2 : i64, tile.vec = 2 : i64, tile.chunks = 1 : i64, tile.pack = 16 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 16, 16>} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0xFF800000 : f32
  %a = vector.transfer_read %x[%c0], %zero {in_bounds = [true]} : memref<4xf32>, vector<4xf32>
  %s:2 = "tile.scan"(%a, %none) {combine = "log_sum_exp"} : (vector<4xf32>, f32) -> (vector<4xf32>, f32)
  vector.transfer_write %s#0, %o[%c0] {in_bounds = [true]} : vector<4xf32>, memref<4xf32>
  return
}
