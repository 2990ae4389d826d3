// An image that is gathered from, for a library that takes its channels last, is copied once: the copy lies with its channels last.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fuse{balance=16})' | FileCheck %s
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fuse)' | FileCheck %s --check-prefix=ANYWHERE
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fuse{balance=16},lamina-plan)' | FileCheck %s --check-prefix=PLAN

#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#row = affine_map<(n, c, h, w) -> (h)>

// CHECK-LABEL: func.func @main
// CHECK: %[[COPY:.*]] = "graph.group"(%arg0)
// CHECK-NOT: tensor.extract
// CHECK: }) {{.*}} : (tensor<4x32x16x64xbf16>) -> tensor<4x32x16x64xbf16>
// CHECK: %[[UP:.*]] = "graph.group"(%[[COPY]], %arg1)
// CHECK: tensor.extract
// CHECK: "graph.extern"(%[[UP]]
// ANYWHERE-LABEL: func.func @main
// ANYWHERE: %[[UP:.*]] = "graph.group"(%arg0, %arg1)
// ANYWHERE: "graph.extern"(%[[UP]]
// PLAN: "plan.program"
// PLAN: "plan.launch"({{.*}}) {{.*}} : (memref<4x32x16x64xbf16>, memref<4x32x16x64xbf16, strided<[32768, 1, 2048, 32]>>)
// PLAN: "plan.launch"({{.*}}) {{.*}} : (memref<4x32x16x64xbf16, strided<[32768, 1, 2048, 32]>>, memref<32xi32>, memref<4x32x32x64xbf16, strided<[65536, 1, 2048, 32]>>)
func.func @main(%x: tensor<4x32x16x64xbf16>, %rows: tensor<32xi32>, %w: tensor<32x32x1x1xbf16>) -> tensor<4x32x32x64xbf16> {
  %e = tensor.empty() : tensor<4x32x16x64xf32>
  %wide = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<4x32x16x64xbf16>) outs(%e : tensor<4x32x16x64xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %0 = arith.extf %a : bf16 to f32
    linalg.yield %0 : f32
  } -> tensor<4x32x16x64xf32>
  %f = tensor.empty() : tensor<4x32x32x64xbf16>
  %up = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%rows : tensor<32xi32>) outs(%f : tensor<4x32x32x64xbf16>) {
  ^bb0(%a: i32, %o: bf16):
    %at = arith.index_cast %a : i32 to index
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %w0 = linalg.index 3 : index
    %0 = tensor.extract %wide[%n, %c, %at, %w0] {graph.checked} : tensor<4x32x16x64xf32>
    %1 = arith.truncf %0 : f32 to bf16
    linalg.yield %1 : bf16
  } -> tensor<4x32x32x64xbf16>
  %y = "graph.extern"(%up, %w) {callee = "aten.convolution.default", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], kwargs = {}, reason = "library", strides = [array<i64: 65536, 1, 2048, 32>]} : (tensor<4x32x32x64xbf16>, tensor<32x32x1x1xbf16>) -> tensor<4x32x32x64xbf16>
  return %y : tensor<4x32x32x64xbf16>
}

// -----

#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#row = affine_map<(n, c, h, w) -> (h)>

// What has its channels last already is read where it lies; what is larger than what is gathered from it, too.
// CHECK-LABEL: func.func @main
// CHECK: "graph.group"(%arg2, %arg0)
// CHECK: "graph.group"(%arg2, %arg1)
// CHECK-NOT: "graph.group"
// CHECK: return
// ANYWHERE-LABEL: func.func @main
// PLAN: "plan.program"
func.func @main(%x: tensor<4x32x16x64xf32> {graph.strides = array<i64: 32768, 1, 2048, 32>}, %large: tensor<4x32x99x64xf32>, %rows: tensor<32xi32>, %w: tensor<32x32x1x1xf32>) -> (tensor<4x32x32x64xf32>, tensor<4x32x32x64xf32>) {
  %e = tensor.empty() : tensor<4x32x32x64xf32>
  %up = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%rows : tensor<32xi32>) outs(%e : tensor<4x32x32x64xf32>) {
  ^bb0(%a: i32, %o: f32):
    %at = arith.index_cast %a : i32 to index
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %w0 = linalg.index 3 : index
    %0 = tensor.extract %x[%n, %c, %at, %w0] {graph.checked} : tensor<4x32x16x64xf32>
    linalg.yield %0 : f32
  } -> tensor<4x32x32x64xf32>
  %down = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%rows : tensor<32xi32>) outs(%e : tensor<4x32x32x64xf32>) {
  ^bb0(%a: i32, %o: f32):
    %at = arith.index_cast %a : i32 to index
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %w0 = linalg.index 3 : index
    %0 = tensor.extract %large[%n, %c, %at, %w0] {graph.checked} : tensor<4x32x99x64xf32>
    linalg.yield %0 : f32
  } -> tensor<4x32x32x64xf32>
  %y = "graph.extern"(%up, %w) {callee = "aten.convolution.default", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], kwargs = {}, reason = "library", strides = [array<i64: 65536, 1, 2048, 32>]} : (tensor<4x32x32x64xf32>, tensor<32x32x1x1xf32>) -> tensor<4x32x32x64xf32>
  %z = "graph.extern"(%down, %w) {callee = "aten.convolution.default", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], kwargs = {}, reason = "library", strides = [array<i64: 65536, 1, 2048, 32>]} : (tensor<4x32x32x64xf32>, tensor<32x32x1x1xf32>) -> tensor<4x32x32x64xf32>
  return %y, %z : tensor<4x32x32x64xf32>, tensor<4x32x32x64xf32>
}

// -----

// Parts of a concatenation are laid out by kernels that transpose; what already lies so is read as it is.
// CHECK-LABEL: func.func @main
// CHECK: %[[COPY:.*]] = "graph.group"(%arg0)
// CHECK: "graph.group"(%[[COPY]], %arg1)
// CHECK: tensor.concat
// ANYWHERE-LABEL: func.func @main
// ANYWHERE: "graph.group"(%arg0, %arg1)
// PLAN: "plan.program"
// PLAN: "plan.launch"({{.*}}) {{.*}} : (memref<4x32x16x64xbf16>, memref<4x32x16x64xbf16, strided<[32768, 1, 2048, 32]>>)
// PLAN: "plan.launch"({{.*}}) {{.*}} : (memref<4x32x16x64xbf16, strided<[32768, 1, 2048, 32]>>, memref<4x32x16x64xbf16, strided<[32768, 1, 2048, 32]>>,
func.func @main(%x: tensor<4x32x16x64xbf16>, %y: tensor<4x32x16x64xbf16> {graph.strides = array<i64: 32768, 1, 2048, 32>}, %w: tensor<32x64x1x1xbf16>) -> tensor<4x32x16x64xbf16> {
  %both = tensor.concat dim(1) %x, %y : (tensor<4x32x16x64xbf16>, tensor<4x32x16x64xbf16>) -> tensor<4x64x16x64xbf16>
  %z = "graph.extern"(%both, %w) {callee = "aten.convolution.default", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], kwargs = {}, reason = "library", strides = [array<i64: 32768, 1, 2048, 32>]} : (tensor<4x64x16x64xbf16>, tensor<32x64x1x1xbf16>) -> tensor<4x32x16x64xbf16>
  return %z : tensor<4x32x16x64xbf16>
}

// -----

#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#row = affine_map<(n, c, h, w) -> (h)>
#column = affine_map<(n, c, h, w) -> (w)>

// Two gathers, one of rows and one of columns: what is small, and in its narrow type, is stored, not what lies between them.
// CHECK-LABEL: func.func @main
// CHECK: %[[SMALL:.*]] = "graph.group"(%arg0)
// CHECK: }) {{.*}} -> tensor<4x32x16x16xbf16>
// CHECK: "graph.group"(%[[SMALL]], %arg1)
// CHECK-NOT: "graph.group"
// ANYWHERE-LABEL: func.func @main
// ANYWHERE: -> tensor<4x32x32x16xf32>
// PLAN: "plan.program"
func.func @main(%x: tensor<4x32x16x16xbf16> {graph.strides = array<i64: 8192, 1, 512, 32>}, %at: tensor<32xi32>, %w: tensor<32x32x1x1xbf16>) -> tensor<4x32x32x32xbf16> {
  %half = arith.constant 5.0e-01 : f32
  %e = tensor.empty() : tensor<4x32x16x16xbf16>
  %small = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<4x32x16x16xbf16>) outs(%e : tensor<4x32x16x16xbf16>) {
  ^bb0(%a: bf16, %o: bf16):
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.addf %0, %half : f32
    %2 = arith.maximumf %1, %half : f32
    %3 = arith.mulf %2, %1 : f32
    %4 = arith.truncf %3 : f32 to bf16
    linalg.yield %4 : bf16
  } -> tensor<4x32x16x16xbf16>
  %f = tensor.empty() : tensor<4x32x16x16xf32>
  %wide = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%small : tensor<4x32x16x16xbf16>) outs(%f : tensor<4x32x16x16xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %0 = arith.extf %a : bf16 to f32
    linalg.yield %0 : f32
  } -> tensor<4x32x16x16xf32>
  %g = tensor.empty() : tensor<4x32x32x16xf32>
  %down = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%at : tensor<32xi32>) outs(%g : tensor<4x32x32x16xf32>) {
  ^bb0(%a: i32, %o: f32):
    %i = arith.index_cast %a : i32 to index
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %w0 = linalg.index 3 : index
    %0 = tensor.extract %wide[%n, %c, %i, %w0] {graph.checked} : tensor<4x32x16x16xf32>
    linalg.yield %0 : f32
  } -> tensor<4x32x32x16xf32>
  %scaled = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%down : tensor<4x32x32x16xf32>) outs(%g : tensor<4x32x32x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.mulf %a, %half : f32
    %1 = arith.addf %0, %half : f32
    %2 = arith.mulf %1, %a : f32
    %3 = arith.addf %2, %a : f32
    %4 = arith.subf %3, %half : f32
    linalg.yield %4 : f32
  } -> tensor<4x32x32x16xf32>
  %h = tensor.empty() : tensor<4x32x32x32xf32>
  %one = linalg.generic {indexing_maps = [#column, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%at : tensor<32xi32>) outs(%h : tensor<4x32x32x32xf32>) {
  ^bb0(%a: i32, %o: f32):
    %i = arith.index_cast %a : i32 to index
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %h0 = linalg.index 2 : index
    %0 = tensor.extract %scaled[%n, %c, %h0, %i] {graph.checked} : tensor<4x32x32x16xf32>
    linalg.yield %0 : f32
  } -> tensor<4x32x32x32xf32>
  %other = linalg.generic {indexing_maps = [#column, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%at : tensor<32xi32>) outs(%h : tensor<4x32x32x32xf32>) {
  ^bb0(%a: i32, %o: f32):
    %z = arith.constant 0 : i32
    %b = arith.maxsi %a, %z : i32
    %i = arith.index_cast %b : i32 to index
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %h0 = linalg.index 2 : index
    %0 = tensor.extract %scaled[%n, %c, %h0, %i] {graph.checked} : tensor<4x32x32x16xf32>
    linalg.yield %0 : f32
  } -> tensor<4x32x32x32xf32>
  %k = tensor.empty() : tensor<4x32x32x32xbf16>
  %sum = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%one, %other : tensor<4x32x32x32xf32>, tensor<4x32x32x32xf32>) outs(%k : tensor<4x32x32x32xbf16>) {
  ^bb0(%a: f32, %b: f32, %o: bf16):
    %0 = arith.addf %a, %b : f32
    %1 = arith.truncf %0 : f32 to bf16
    linalg.yield %1 : bf16
  } -> tensor<4x32x32x32xbf16>
  %y = "graph.extern"(%sum, %w) {callee = "aten.convolution.default", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], kwargs = {}, reason = "library", strides = [array<i64: 32768, 1, 1024, 32>]} : (tensor<4x32x32x32xbf16>, tensor<32x32x1x1xbf16>) -> tensor<4x32x32x32xbf16>
  return %y : tensor<4x32x32x32xbf16>
}

// -----

#id = affine_map<(n, c, h, w) -> (n, c, h, w)>

// What is gathered from is stored in its narrowest type already, for who else reads it.
// CHECK-LABEL: func.func @main
// CHECK: %[[MASK:.*]] = "graph.group"(%arg0)
// CHECK: }) {{.*}} : (tensor<8x16x7x7xf32>) -> tensor<8x16x7x7xi1>
// CHECK: tensor.extract
// CHECK: return
// ANYWHERE-LABEL: func.func @main
// PLAN: "plan.program"
func.func @main(%x: tensor<8x16x7x7xf32>, %y: tensor<8x16x14x14xf32>) -> (tensor<8x16x7x7xi1>, tensor<16xf32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %m = tensor.empty() : tensor<8x16x7x7xi1>
  %mask = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<8x16x7x7xf32>) outs(%m : tensor<8x16x7x7xi1>) {
  ^bb0(%a: f32, %o: i1):
    %0 = arith.cmpf ogt, %a, %zero : f32
    linalg.yield %0 : i1
  } -> tensor<8x16x7x7xi1>
  %s = tensor.empty() : tensor<8x16x7x7xf32>
  %wide = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%mask : tensor<8x16x7x7xi1>) outs(%s : tensor<8x16x7x7xf32>) {
  ^bb0(%a: i1, %o: f32):
    %0 = arith.uitofp %a : i1 to f32
    linalg.yield %0 : f32
  } -> tensor<8x16x7x7xf32>
  %e = tensor.empty() : tensor<8x16x14x14xf32>
  %up = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y : tensor<8x16x14x14xf32>) outs(%e : tensor<8x16x14x14xf32>) {
  ^bb0(%a: f32, %o: f32):
    %two = arith.constant 2 : index
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %h = linalg.index 2 : index
    %w = linalg.index 3 : index
    %h0 = arith.divui %h, %two : index
    %w0 = arith.divui %w, %two : index
    %0 = tensor.extract %wide[%n, %c, %h0, %w0] {graph.checked} : tensor<8x16x7x7xf32>
    %1 = math.exp %a : f32
    %2 = math.erf %1 : f32
    %3 = arith.mulf %0, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<8x16x14x14xf32>
  %f = tensor.empty() : tensor<16xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%f : tensor<16xf32>) -> tensor<16xf32>
  %channels = linalg.generic {indexing_maps = [#id, affine_map<(n, c, h, w) -> (c)>], iterator_types = ["reduction", "parallel", "reduction", "reduction"]} ins(%up : tensor<8x16x14x14xf32>) outs(%filled : tensor<16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<16xf32>
  %g = tensor.empty() : tensor<8xf32>
  %cleared = linalg.fill ins(%zero : f32) outs(%g : tensor<8xf32>) -> tensor<8xf32>
  %images = linalg.generic {indexing_maps = [#id, affine_map<(n, c, h, w) -> (n)>], iterator_types = ["parallel", "reduction", "reduction", "reduction"]} ins(%up : tensor<8x16x14x14xf32>) outs(%cleared : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<8xf32>
  return %mask, %channels, %images : tensor<8x16x7x7xi1>, tensor<16xf32>, tensor<8xf32>
}
