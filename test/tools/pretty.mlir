// Index notation, expressions and places, at every level.
// RUN: opt-driver %s --split-input-file --pretty | FileCheck %s
// RUN: not opt-driver %s --target=nvvm:sm_90a --emit=ptx --pretty 2>&1 | FileCheck %s --check-prefix=TEXT

// A value that is used once is written inside of its user; what is used twice stands beneath it. Reductions say over what.
// CHECK-LABEL: func @norm(%arg0: 4x16xf32, %arg1: 16xf32):
// CHECK-NEXT: %0[i] += t0 * t0 : 4xf32 for j < 16{{$}}
// CHECK-NEXT: where t0 = max(%arg0[i, j], 0.5) - f32(j)
// CHECK-NEXT: %1[i] max= %arg0[i, j] : 4xf32 for j < 16 from -1
// CHECK-NEXT: %2[i, j] = %0[i] > %1[i] ? %arg1[j] : 2 * (%arg1[j] + 1) : 4x16xf32
// CHECK-NEXT: %3 = transpose %2 by [1, 0] : 16x4xf32
// CHECK-NEXT: return %3
func.func @norm(%x: tensor<4x16xf32>, %w: tensor<16xf32>) -> tensor<16x4xf32> {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %less = arith.constant -1.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %m = tensor.empty() : tensor<4x16xf32>
  %t = tensor.empty() : tensor<16x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %g = linalg.fill ins(%less : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x16xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %j = linalg.index 1 : index
    %i = arith.index_cast %j : index to i32
    %n = arith.sitofp %i : i32 to f32
    %b = arith.maximumf %a, %half : f32
    %c = arith.subf %b, %n : f32
    %d = arith.mulf %c, %c : f32
    %u = arith.addf %d, %o : f32
    linalg.yield %u : f32
  } -> tensor<4xf32>
  %q = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x16xf32>) outs(%g : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %u = arith.maximumf %o, %a : f32
    linalg.yield %u : f32
  } -> tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%s, %q, %w : tensor<4xf32>, tensor<4xf32>, tensor<16xf32>) outs(%m : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %k = arith.cmpf ogt, %a, %b : f32
    %l = arith.addf %c, %one : f32
    %n = arith.mulf %two, %l : f32
    %u = arith.select %k, %c, %n : f32
    linalg.yield %u : f32
  } -> tensor<4x16xf32>
  %z = linalg.transpose ins(%r : tensor<4x16xf32>) outs(%t : tensor<16x4xf32>) permutation = [1, 0]
  return %z : tensor<16x4xf32>
}

// -----

// CHECK-LABEL: program @main: arena of 64K bytes, at least 512
// CHECK-NEXT: %0 = input 0 : 8x16xf32
// CHECK-NEXT: %1 = view %0 : 16x8xf32 strides [1, 16]
// CHECK-NEXT: %2 = call aten.mm.default(%1, %0) -> 16x16xf32 @ arena+1K // library; model.py:3
// CHECK-NEXT: %3 = launch @relu(%2) -> 16x16xf32 @ output 0 // model.py:4
// CHECK-NEXT: return %3
"plan.program"() ({
  %0 = "plan.input"() {index = 0 : i64} : () -> memref<8x16xf32>
  %1 = "plan.view"(%0) {offset = 0 : i64} : (memref<8x16xf32>) -> memref<16x8xf32, strided<[1, 16]>>
  %2 = "plan.alloc"() {bytes = 1024 : i64, offset = 1024 : i64} : () -> memref<16x16xf32>
  "plan.call"(%1, %0, %2) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, n_out = 1 : i64, reason = "library"} : (memref<16x8xf32, strided<[1, 16]>>, memref<8x16xf32>, memref<16x16xf32>) -> () loc("model.py":3:0)
  %3 = "plan.output"() {index = 0 : i64} : () -> memref<16x16xf32>
  "plan.launch"(%2, %3) {kernel = @relu, label = "relu", n_out = 1 : i64} : (memref<16x16xf32>, memref<16x16xf32>) -> () loc("model.py":4:0)
  "plan.return"(%3) : (memref<16x16xf32>) -> ()
}) {arena_bytes = 65536 : i64, lower_bound = 512 : i64, sum_bytes = 512 : i64, sym_name = "main"} : () -> ()

// CHECK: func @relu(%arg0: 16x16xf32, %arg1: 16x16xf32): // tile.bytes = 2048, tile.flops = 256, tile.grid = 16, tile.outputs = 1
// CHECK-NEXT: %0 = tile.program_id : index
// CHECK-NEXT: %1 = for %2 = 0 to 16 step 8 with %3 = 0:
// CHECK-NEXT: %4 = %arg0[%0, %2] : <8xf32>
// CHECK-NEXT: %5 = max(%4, 0) : <8xf32>
// CHECK-NEXT: %arg1[%0, %2] = %5
// CHECK-NEXT: if %0 == 1:
// CHECK-NEXT: %arg1[%0, 0] = 3
// CHECK: yield %3 + sum(%5)
func.func private @relu(%x: memref<16x16xf32>, %y: memref<16x16xf32>) attributes {tile.bytes = 2048 : i64, tile.flops = 256 : i64, tile.grid = 16 : i64, tile.outputs = 1 : i64} {
  %row = "tile.program_id"() : () -> index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %three = arith.constant 3.0 : f32
  %zeros = arith.constant dense<0.0> : vector<8xf32>
  %sum = scf.for %j = %c0 to %c16 step %c8 iter_args(%s = %zero) -> (f32) {
    %a = vector.load %x[%row, %j] : memref<16x16xf32>, vector<8xf32>
    %b = arith.maximumf %a, %zeros : vector<8xf32>
    vector.store %b, %y[%row, %j] : memref<16x16xf32>, vector<8xf32>
    %first = arith.cmpi eq, %row, %c1 : index
    scf.if %first {
      memref.store %three, %y[%row, %c0] : memref<16x16xf32>
    }
    %t = vector.reduction <add>, %b : vector<8xf32> into f32
    %u = arith.addf %s, %t : f32
    scf.yield %u : f32
  }
  return
}

// -----

// CHECK-LABEL: func @running(%arg0: 4xf32):
// CHECK-NEXT: %0 = graph.scan %arg0 {combine = arith.addf, dim = 0} : 4xf32
// CHECK: return %0
func.func @running(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "graph.scan"(%a) {combine = "arith.addf", dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// TEXT: <command line>:1:1: error: --pretty does not go with --emit=ptx, which is not MLIR
