// Tile programs written by hand, each with something that the CPU's lowering has to get right. Run by test/unit/test_cpu_target.py.
#t = affine_map<(d0, d1) -> (d1, d0)>
#row = affine_map<(d0, d1) -> (d1)>
#column = affine_map<(d0, d1) -> (d0)>

// Softmax over rows of 200: three loops over blocks of 64 and a masked tail.
func.func @softmax(%x: memref<37x200xf32>, %o: memref<37x200xf32>) attributes {tile.grid = 37 : i64, tile.bytes = 59200 : i64} {
  %p = "tile.program_id"() : () -> index
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c192 = arith.constant 192 : index
  %c200 = arith.constant 200 : index
  %ninf = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %vninf = arith.constant dense<0xFF800000> : vector<64xf32>
  %vzero = arith.constant dense<0.0> : vector<64xf32>
  %rest = arith.constant 8 : index
  %mask = vector.create_mask %rest : vector<64xi1>
  %m0 = scf.for %j = %c0 to %c192 step %c64 iter_args(%acc = %vninf) -> (vector<64xf32>) {
    %v = vector.transfer_read %x[%p, %j], %ninf {in_bounds = [true], permutation_map = #row} : memref<37x200xf32>, vector<64xf32>
    %m = arith.maximumf %acc, %v : vector<64xf32>
    scf.yield %m : vector<64xf32>
  }
  %t0 = vector.transfer_read %x[%p, %c192], %ninf, %mask {in_bounds = [true], permutation_map = #row} : memref<37x200xf32>, vector<64xf32>
  %m1 = arith.maximumf %m0, %t0 : vector<64xf32>
  %max = vector.reduction <maximumf>, %m1 : vector<64xf32> into f32
  %vmax = vector.broadcast %max : f32 to vector<64xf32>
  %s0 = scf.for %j = %c0 to %c192 step %c64 iter_args(%acc = %vzero) -> (vector<64xf32>) {
    %v = vector.transfer_read %x[%p, %j], %ninf {in_bounds = [true], permutation_map = #row} : memref<37x200xf32>, vector<64xf32>
    %d = arith.subf %v, %vmax : vector<64xf32>
    %e = math.exp %d : vector<64xf32>
    %m = arith.addf %acc, %e : vector<64xf32>
    scf.yield %m : vector<64xf32>
  }
  %d0 = arith.subf %t0, %vmax : vector<64xf32>
  %e0 = math.exp %d0 : vector<64xf32>
  %s1 = arith.addf %s0, %e0 : vector<64xf32>
  %sum = vector.multi_reduction <add>, %s1, %zero [0] : vector<64xf32> to f32
  %one = arith.constant 1.0 : f32
  %inv = arith.divf %one, %sum : f32
  %vinv = vector.broadcast %inv : f32 to vector<64xf32>
  scf.for %j = %c0 to %c192 step %c64 {
    %v = vector.transfer_read %x[%p, %j], %ninf {in_bounds = [true], permutation_map = #row} : memref<37x200xf32>, vector<64xf32>
    %d = arith.subf %v, %vmax : vector<64xf32>
    %e = math.exp %d : vector<64xf32>
    %r = arith.mulf %e, %vinv : vector<64xf32>
    vector.transfer_write %r, %o[%p, %j] {in_bounds = [true], permutation_map = #row} : vector<64xf32>, memref<37x200xf32>
  }
  %r0 = arith.mulf %e0, %vinv : vector<64xf32>
  vector.transfer_write %r0, %o[%p, %c192], %mask {in_bounds = [true], permutation_map = #row} : vector<64xf32>, memref<37x200xf32>
  return
}

// bf16 relu with a tail by in_bounds = false
func.func @relu_bf16(%x: memref<1001xbf16>, %o: memref<1001xbf16>) attributes {tile.grid = 16 : i64} {
  %p = "tile.program_id"() : () -> index
  %c64 = arith.constant 64 : index
  %i = arith.muli %p, %c64 : index
  %pad = arith.constant 0.0 : bf16
  %zero = arith.constant dense<0.0> : vector<64xf32>
  %h = vector.transfer_read %x[%i], %pad {in_bounds = [false]} : memref<1001xbf16>, vector<64xbf16>
  %v = arith.extf %h : vector<64xbf16> to vector<64xf32>
  %r = arith.maximumf %v, %zero : vector<64xf32>
  %t = arith.truncf %r : vector<64xf32> to vector<64xbf16>
  vector.transfer_write %t, %o[%i] {in_bounds = [false]} : vector<64xbf16>, memref<1001xbf16>
  return
}
// o[j, i] = x[i, j] by 16x16 blocks; x is 48x64
func.func @transpose(%x: memref<48x64xf32>, %o: memref<64x48xf32>) attributes {tile.grid = 12 : i64} {
  %p = "tile.program_id"() : () -> index
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  %a = arith.divui %p, %c4 : index
  %b = arith.remui %p, %c4 : index
  %i = arith.muli %a, %c16 : index
  %j = arith.muli %b, %c16 : index
  %pad = arith.constant 0.0 : f32
  %v = vector.transfer_read %x[%i, %j], %pad {in_bounds = [true, true], permutation_map = #t} : memref<48x64xf32>, vector<16x16xf32>
  %w = arith.addf %v, %v : vector<16x16xf32>
  vector.transfer_write %w, %o[%j, %i] {in_bounds = [true, true]} : vector<16x16xf32>, memref<64x48xf32>
  return
}
// column sums of 33x100, 64 columns a program
func.func @colsum(%x: memref<33x100xf32>, %o: memref<100xf32>) attributes {tile.grid = 2 : i64} {
  %p = "tile.program_id"() : () -> index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c33 = arith.constant 33 : index
  %c64 = arith.constant 64 : index
  %c100 = arith.constant 100 : index
  %j = arith.muli %p, %c64 : index
  %pad = arith.constant 0.0 : f32
  %zero = arith.constant dense<0.0> : vector<64xf32>
  %left = arith.subi %c100, %j : index
  %mask = vector.create_mask %left : vector<64xi1>
  %s = scf.for %i = %c0 to %c33 step %c1 iter_args(%acc = %zero) -> (vector<64xf32>) {
    %v = vector.transfer_read %x[%i, %j], %pad, %mask {in_bounds = [true]} : memref<33x100xf32>, vector<64xf32>
    %n = arith.addf %acc, %v : vector<64xf32>
    scf.yield %n : vector<64xf32>
  }
  vector.transfer_write %s, %o[%j], %mask {in_bounds = [true]} : vector<64xf32>, memref<100xf32>
  return
}
// o[i] = table[index[i]], bounds checked
func.func @take(%table: memref<50xf32>, %index: memref<64xi64>, %o: memref<64xf32>) attributes {tile.grid = 1 : i64} {
  %c0 = arith.constant 0 : index
  %pad = arith.constant 0 : i64
  %i = vector.transfer_read %index[%c0], %pad {in_bounds = [true]} : memref<64xi64>, vector<64xi64>
  %n = arith.constant dense<50> : vector<64xi64>
  %ok = arith.cmpi ult, %i, %n : vector<64xi64>
  "tile.check"(%ok) {message = "index out of range"} : (vector<64xi1>) -> ()
  %k = arith.index_cast %i : vector<64xi64> to vector<64xindex>
  %zero = arith.constant dense<0.0> : vector<64xf32>
  %v = "tile.gather"(%table, %k, %ok, %zero) : (memref<50xf32>, vector<64xindex>, vector<64xi1>, vector<64xf32>) -> vector<64xf32>
  vector.transfer_write %v, %o[%c0] {in_bounds = [true]} : vector<64xf32>, memref<64xf32>
  return
}
// o = x > 0 as bytes; every second element of x
func.func @positive(%x: memref<64xf32, strided<[2]>>, %o: memref<64xi8>) attributes {tile.grid = 1 : i64} {
  %c0 = arith.constant 0 : index
  %pad = arith.constant 0.0 : f32
  %zero = arith.constant dense<0.0> : vector<64xf32>
  %v = vector.transfer_read %x[%c0], %pad {in_bounds = [true]} : memref<64xf32, strided<[2]>>, vector<64xf32>
  %g = arith.cmpf ogt, %v, %zero : vector<64xf32>
  %b = arith.extui %g : vector<64xi1> to vector<64xi8>
  vector.transfer_write %b, %o[%c0] {in_bounds = [true]} : vector<64xi8>, memref<64xi8>
  return
}
// scalar loop, scratch memory, guarded integer division
func.func @scan(%x: memref<3x9xi64>, %d: memref<9xi64>, %o: memref<3x9xi64>) attributes {tile.grid = 3 : i64} {
  %p = "tile.program_id"() : () -> index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %z = arith.constant 0 : i64
  %t = memref.alloca() : memref<1xi64>
  memref.store %z, %t[%c0] : memref<1xi64>
  scf.for %j = %c0 to %c9 step %c1 {
    %v = memref.load %x[%p, %j] : memref<3x9xi64>
    %s = memref.load %t[%c0] : memref<1xi64>
    %a = arith.addi %v, %s : i64
    memref.store %a, %t[%c0] : memref<1xi64>
    %w = memref.load %d[%j] : memref<9xi64>
    %q = arith.floordivsi %a, %w : i64
    memref.store %q, %o[%p, %j] : memref<3x9xi64>
  }
  return
}

// o = x^T of 37x50 by 16x16 blocks that stick out of the matrix on both sides.
func.func @transpose_edges(%x: memref<37x50xbf16>, %o: memref<50x37xbf16>) attributes {tile.grid = 12 : i64} {
  %p = "tile.program_id"() : () -> index
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  %a = arith.divui %p, %c4 : index
  %b = arith.remui %p, %c4 : index
  %i = arith.muli %a, %c16 : index
  %j = arith.muli %b, %c16 : index
  %pad = arith.constant 0.0 : bf16
  %v = vector.transfer_read %x[%i, %j], %pad {permutation_map = #t} : memref<37x50xbf16>, vector<16x16xbf16>
  vector.transfer_write %v, %o[%j, %i] : vector<16x16xbf16>, memref<50x37xbf16>
  return
}

// The same matrix, written through a permuted map, and a block that is no square.
func.func @transpose_write(%x: memref<8x16xf32>, %o: memref<16x8xf32>) attributes {tile.grid = 1 : i64} {
  %c0 = arith.constant 0 : index
  %pad = arith.constant 0.0 : f32
  %v = vector.transfer_read %x[%c0, %c0], %pad {in_bounds = [true, true]} : memref<8x16xf32>, vector<8x16xf32>
  vector.transfer_write %v, %o[%c0, %c0] {in_bounds = [true, true], permutation_map = #t} : vector<8x16xf32>, memref<16x8xf32>
  return
}

// A column of x, added to 1, becomes a column of o; 20 rows, 16 at a time.
func.func @column(%x: memref<20x7xf32>, %o: memref<20x5xf32>) attributes {tile.grid = 2 : i64} {
  %p = "tile.program_id"() : () -> index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c16 = arith.constant 16 : index
  %i = arith.muli %p, %c16 : index
  %pad = arith.constant 0.0 : f32
  %one = arith.constant dense<1.0> : vector<16xf32>
  %v = vector.transfer_read %x[%i, %c3], %pad {permutation_map = #column} : memref<20x7xf32>, vector<16xf32>
  %w = arith.addf %v, %one : vector<16xf32>
  vector.transfer_write %w, %o[%i, %c2] {permutation_map = #column} : vector<16xf32>, memref<20x5xf32>
  return
}

// Every c-th element from 1 on, for c = 1, 2, 3 and 7, by gathers whose index is an affine function of the lane.
func.func @every(%x: memref<400xf32>, %o: memref<4x50xf32>) attributes {tile.grid = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %i1 = arith.constant 1 : index
  %i2 = arith.constant 2 : index
  %i3 = arith.constant 3 : index
  %c50 = arith.constant 50 : index
  %zero = arith.constant dense<0.0> : vector<64xf32>
  %mask = vector.create_mask %c50 : vector<64xi1>
  %step = vector.step : vector<64xindex>
  %s = vector.broadcast %c1 : index to vector<64xindex>
  %k2 = arith.constant dense<2> : vector<64xindex>
  %k3 = arith.constant dense<3> : vector<64xindex>
  %k7 = arith.constant dense<7> : vector<64xindex>
  %p1 = arith.addi %s, %step : vector<64xindex>
  %t2 = arith.muli %step, %k2 : vector<64xindex>
  %p2 = arith.addi %s, %t2 : vector<64xindex>
  %t3 = arith.muli %k3, %step : vector<64xindex>
  %p3 = arith.addi %t3, %s : vector<64xindex>
  %t7 = arith.muli %step, %k7 : vector<64xindex>
  %p7 = arith.addi %s, %t7 : vector<64xindex>
  %v1 = "tile.gather"(%x, %p1, %mask, %zero) : (memref<400xf32>, vector<64xindex>, vector<64xi1>, vector<64xf32>) -> vector<64xf32>
  %v2 = "tile.gather"(%x, %p2, %mask, %zero) : (memref<400xf32>, vector<64xindex>, vector<64xi1>, vector<64xf32>) -> vector<64xf32>
  %v3 = "tile.gather"(%x, %p3, %mask, %zero) : (memref<400xf32>, vector<64xindex>, vector<64xi1>, vector<64xf32>) -> vector<64xf32>
  %v7 = "tile.gather"(%x, %p7, %mask, %zero) : (memref<400xf32>, vector<64xindex>, vector<64xi1>, vector<64xf32>) -> vector<64xf32>
  vector.transfer_write %v1, %o[%c0, %c0], %mask {in_bounds = [true]} : vector<64xf32>, memref<4x50xf32>
  vector.transfer_write %v2, %o[%i1, %c0], %mask {in_bounds = [true]} : vector<64xf32>, memref<4x50xf32>
  vector.transfer_write %v3, %o[%i2, %c0], %mask {in_bounds = [true]} : vector<64xf32>, memref<4x50xf32>
  vector.transfer_write %v7, %o[%i3, %c0], %mask {in_bounds = [true]} : vector<64xf32>, memref<4x50xf32>
  return
}

// Stores past the cache, whatever the address of o.
func.func @stream(%x: memref<256xf32>, %o: memref<256xf32>) attributes {tile.grid = 4 : i64} {
  %p = "tile.program_id"() : () -> index
  %c64 = arith.constant 64 : index
  %i = arith.muli %p, %c64 : index
  %v = vector.load %x[%i] : memref<256xf32>, vector<64xf32>
  %r = arith.addf %v, %v : vector<64xf32>
  vector.store %r, %o[%i] {nontemporal = true, alignment = 64 : i64} : memref<256xf32>, vector<64xf32>
  return
}

// x in place: what it may alias is said, so the second read sees the first write.
func.func @in_place(%x: memref<64xf32>, %o: memref<64xf32>) attributes {tile.grid = 1 : i64, tile.alias = array<i64: 0, 1>} {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0] : memref<64xf32>, vector<64xf32>
  %b = arith.addf %a, %a : vector<64xf32>
  vector.store %b, %o[%c0] : memref<64xf32>, vector<64xf32>
  %c = vector.load %x[%c0] : memref<64xf32>, vector<64xf32>
  %d = arith.addf %a, %c : vector<64xf32>
  vector.store %d, %o[%c0] : memref<64xf32>, vector<64xf32>
  return
}

// Half types: integers in, f64 in, f16 out, bf16 to integers.
func.func @halves(%n: memref<16xi64>, %d: memref<16xf64>, %f: memref<3x16xf16>, %b: memref<2x16xbf16>, %i: memref<16xi32>)
    attributes {tile.grid = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %vn = vector.load %n[%c0] : memref<16xi64>, vector<16xi64>
  %vd = vector.load %d[%c0] : memref<16xf64>, vector<16xf64>
  %h0 = arith.sitofp %vn : vector<16xi64> to vector<16xf16>
  %h1 = arith.truncf %vd : vector<16xf64> to vector<16xf16>
  %s = arith.truncf %vd : vector<16xf64> to vector<16xf32>
  %h2 = arith.truncf %s : vector<16xf32> to vector<16xf16>
  %b0 = arith.sitofp %vn : vector<16xi64> to vector<16xbf16>
  %b1 = arith.truncf %vd : vector<16xf64> to vector<16xbf16>
  %back = arith.fptosi %b0 : vector<16xbf16> to vector<16xi32>
  vector.store %h0, %f[%c0, %c0] : memref<3x16xf16>, vector<16xf16>
  vector.store %h1, %f[%c1, %c0] : memref<3x16xf16>, vector<16xf16>
  vector.store %h2, %f[%c2, %c0] : memref<3x16xf16>, vector<16xf16>
  vector.store %b0, %b[%c0, %c0] : memref<2x16xbf16>, vector<16xbf16>
  vector.store %b1, %b[%c1, %c0] : memref<2x16xbf16>, vector<16xbf16>
  vector.store %back, %i[%c0] : memref<16xi32>, vector<16xi32>
  return
}

// Maximum and minimum keep NaN in either operand.
func.func @extrema(%x: memref<64xf32>, %y: memref<64xf32>, %o: memref<3x64xf32>) attributes {tile.grid = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant dense<0.0> : vector<64xf32>
  %a = vector.load %x[%c0] : memref<64xf32>, vector<64xf32>
  %b = vector.load %y[%c0] : memref<64xf32>, vector<64xf32>
  %p = arith.maximumf %a, %b : vector<64xf32>
  %q = arith.minimumf %a, %b : vector<64xf32>
  %r = arith.maximumf %zero, %a : vector<64xf32>
  vector.store %p, %o[%c0, %c0] : memref<3x64xf32>, vector<64xf32>
  vector.store %q, %o[%c1, %c0] : memref<3x64xf32>, vector<64xf32>
  vector.store %r, %o[%c2, %c0] : memref<3x64xf32>, vector<64xf32>
  return
}

// Division and remainder where the divisor is 0 or -1.
func.func @divide(%x: memref<16xi32>, %y: memref<16xi32>, %o: memref<4x16xi32>) attributes {tile.grid = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %a = vector.load %x[%c0] : memref<16xi32>, vector<16xi32>
  %b = vector.load %y[%c0] : memref<16xi32>, vector<16xi32>
  %p = arith.floordivsi %a, %b : vector<16xi32>
  %q = arith.remsi %a, %b : vector<16xi32>
  %r = arith.divsi %a, %b : vector<16xi32>
  %s = math.ipowi %b, %a : vector<16xi32>
  vector.store %p, %o[%c0, %c0] : memref<4x16xi32>, vector<16xi32>
  vector.store %q, %o[%c1, %c0] : memref<4x16xi32>, vector<16xi32>
  vector.store %r, %o[%c2, %c0] : memref<4x16xi32>, vector<16xi32>
  vector.store %s, %o[%c3, %c0] : memref<4x16xi32>, vector<16xi32>
  return
}

// Two checks in one program; the grid of a program without work is empty.
func.func @checks(%x: memref<64xi64>, %n: memref<i64>) attributes {tile.grid = 1 : i64} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0> : vector<64xi64>
  %limit = arith.constant 10 : i64
  %v = vector.load %x[%c0] : memref<64xi64>, vector<64xi64>
  %low = arith.cmpi sge, %v, %zero : vector<64xi64>
  "tile.check"(%low) {message = "index must not be negative"} : (vector<64xi1>) -> ()
  %m = memref.load %n[] : memref<i64>
  %small = arith.cmpi slt, %m, %limit : i64
  "tile.check"(%small) {message = "index out of range"} : (i1) -> ()
  return
}
