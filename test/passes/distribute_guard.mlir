// What a guard (tile.guard) leaves out is padding, also in an access that its end falls into; nothing looks at lanes past the end of
// a row, which read whatever is there.
// RUN: opt-driver %s --pass-pipeline='lamina-distribute' | FileCheck %s

// CHECK-LABEL: gpu.func @guarded
// CHECK: %[[LANES:.*]] = vector.from_elements {{.*}} : vector<4xi1>
// CHECK: %[[READ:.*]] = scf.if
// CHECK: vector.load
// CHECK: arith.select %[[LANES]], %[[READ]], %{{.*}} : vector<4xi1>, vector<4xf32>
func.func private @guarded(%x: memref<203xf32>, %o: memref<256xf32>) attributes {tile.grid = 2 : i64, tile.threads = 32 : i64, tile.vec = 4 : i64, tile.chunks = 1 : i64, tile.pack = 1 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 16, 16>} {
  %p = "tile.program_id"() : () -> index
  %c128 = arith.constant 128 : index
  %c203 = arith.constant 203 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.muli %p, %c128 : index
  %count = arith.subi %c203, %first : index
  %mask = vector.create_mask %count {tile.guard} : vector<128xi1>
  %a = vector.transfer_read %x[%first], %zero, %mask {in_bounds = [true]} : memref<203xf32>, vector<128xf32>
  vector.transfer_write %a, %o[%first] {in_bounds = [true]} : vector<128xf32>, memref<256xf32>
  return
}

// CHECK-LABEL: gpu.func @past_the_end
// CHECK-NOT: arith.select {{.*}} : vector<4xi1>
// CHECK: gpu.return
func.func private @past_the_end(%x: memref<203xf32>, %o: memref<256xf32>) attributes {tile.grid = 2 : i64, tile.threads = 32 : i64, tile.vec = 4 : i64, tile.chunks = 1 : i64, tile.pack = 1 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 16, 16>} {
  %p = "tile.program_id"() : () -> index
  %c128 = arith.constant 128 : index
  %c203 = arith.constant 203 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.muli %p, %c128 : index
  %count = arith.subi %c203, %first : index
  %mask = vector.create_mask %count : vector<128xi1>
  %a = vector.transfer_read %x[%first], %zero, %mask {in_bounds = [true]} : memref<203xf32>, vector<128xf32>
  vector.transfer_write %a, %o[%first] {in_bounds = [true]} : vector<128xf32>, memref<256xf32>
  return
}

// A comparison of neighbors with a size that is a multiple of an access has one outcome for each access.
// CHECK-LABEL: gpu.func @second_half
// CHECK: %[[AFTER:.*]] = arith.cmpi sge, %{{.*}}, %{{.*}} : index
// CHECK: arith.select %[[AFTER]], %{{.*}}, %{{.*}} : index
// CHECK: vector.load {{.*}} : memref<?xf32>, vector<4xf32>
// CHECK-NOT: vector<4xi1>
// CHECK: gpu.return
func.func private @second_half(%all: memref<f32>, %o: memref<128xf32>, %sizes: memref<1xi32>) attributes {tile.grid = 1 : i64, tile.threads = 32 : i64, tile.vec = 4 : i64, tile.chunks = 1 : i64, tile.pack = 1 : i64, tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.align = array<i64: 16, 16, 16>, tile.sizes = ["8*s0~8>=1<=16"]} {
  %c0 = arith.constant 0 : index
  %size = memref.load %sizes[%c0] : memref<1xi32>
  %half = arith.index_cast %size : i32 to index
  %x = memref.reinterpret_cast %all to offset: [0], sizes: [%half], strides: [1] : memref<f32> to memref<?xf32>
  %zero = arith.constant 0.0 : f32
  %base = vector.broadcast %c0 : index to vector<128xindex>
  %step = vector.step : vector<128xindex>
  %lanes = arith.addi %base, %step : vector<128xindex>
  %bound = vector.broadcast %half : index to vector<128xindex>
  %mask = arith.cmpi sge, %lanes, %bound : vector<128xindex>
  %first = arith.subi %c0, %half : index
  %a = vector.transfer_read %x[%first], %zero, %mask {in_bounds = [true]} : memref<?xf32>, vector<128xf32>
  vector.transfer_write %a, %o[%c0] {in_bounds = [true]} : vector<128xf32>, memref<128xf32>
  return
}
