// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-plan)' | FileCheck %s

// A chain: the intermediate value lives in the arena, the result is an output, the call writes into the arena.
// CHECK: "plan.program"() ({
// CHECK-NEXT: %[[X:.*]] = "plan.input"() {index = 0 : i64} : () -> memref<4x8xf32>
// CHECK-NEXT: %[[W:.*]] = "plan.input"() {index = 1 : i64} : () -> memref<8x8xf32, strided<[1, 8]>>
// CHECK-NEXT: %[[A:.*]] = "plan.alloc"() {bytes = 128 : i64, offset = [[A_AT:[0-9]+]] : i64} : () -> memref<4x8xf32>
// CHECK-NEXT: "plan.launch"(%[[X]], %[[A]]) {kernel = @relu, label = "relu", n_out = 1 : i64} : (memref<4x8xf32>, memref<4x8xf32>) -> ()
// CHECK-NEXT: %[[M:.*]] = "plan.alloc"() {bytes = 128 : i64, offset = {{[0-9]+}} : i64} : () -> memref<4x8xf32>
// CHECK-NEXT: "plan.call"(%[[A]], %[[W]], %[[M]]) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, n_out = 1 : i64, reason = "library"}
// CHECK-NEXT: %[[O:.*]] = "plan.output"() {index = 0 : i64} : () -> memref<4x8xf32>
// CHECK-NEXT: "plan.launch"(%[[M]], %[[O]]) {kernel = @relu, label = "relu2", n_out = 1 : i64}
// CHECK-NEXT: "plan.return"(%[[O]])
// CHECK: arena_bytes = 256 : i64, lower_bound = 256 : i64, sum_bytes = 256 : i64, sym_name = "main"
// CHECK: func.func private @relu(%{{.*}}: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {graph.kernel}
// CHECK: arith.maximumf
// CHECK: return %{{.*}} : tensor<4x8xf32>
// CHECK-NOT: func.func
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32> {graph.strides = array<i64: 1, 8>}) -> tensor<4x8xf32> {
  %a = "graph.group"(%x) ({
  ^bb0(%in: tensor<4x8xf32>):
    %e = tensor.empty() : tensor<4x8xf32>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%in : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%i: f32, %o: f32):
      %c = arith.constant 0.0 : f32
      %y = arith.maximumf %i, %c : f32
      linalg.yield %y : f32
    } -> tensor<4x8xf32>
    "graph.yield"(%r) : (tensor<4x8xf32>) -> ()
  }) {sym_name = "relu"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = "graph.extern"(%a, %w) {callee = "aten.mm.default", reason = "library", args = [unit, unit], kwargs = {}, strides = [array<i64: 8, 1>]} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %b = "graph.group"(%m) ({
  ^bb0(%in: tensor<4x8xf32>):
    %e = tensor.empty() : tensor<4x8xf32>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%in : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%i: f32, %o: f32):
      %c = arith.constant 0.0 : f32
      %y = arith.maximumf %i, %c : f32
      linalg.yield %y : f32
    } -> tensor<4x8xf32>
    "graph.yield"(%r) : (tensor<4x8xf32>) -> ()
  }) {sym_name = "relu2"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %b : tensor<4x8xf32>
}

// -----

// Views cost nothing; a slice keeps its offset; calls that own their memory return it; a constant that is returned is copied.
// CHECK: "plan.program"() ({
// CHECK: %[[X:.*]] = "plan.input"() {index = 0 : i64} : () -> memref<6x8xf32>
// CHECK-NEXT: %[[S:.*]] = "plan.view"(%[[X]]) {offset = 10 : i64} : (memref<6x8xf32>) -> memref<3x2x2xf32, strided<[1, 16, 8]>>
// CHECK-NEXT: %[[C:.*]] = "plan.call"(%[[S]]) {args = [unit, 0], callee = "aten.cumsum.default", kwargs = {}, n_out = 0 : i64, reason = "fallback"}
// CHECK-SAME: -> memref<3x2x2xf32, strided<[1, 6, 3]>>
// CHECK-NEXT: %[[K:.*]] = "plan.constant"() {value = dense<[1, 2]> : tensor<2xi64>} : () -> memref<2xi64>
// CHECK-NEXT: %[[O:.*]] = "plan.output"() {index = 0 : i64} : () -> memref<2xi64>
// CHECK-NEXT: "plan.launch"(%[[K]], %[[O]]) {kernel = @copy, label = "copy", n_out = 1 : i64}
// CHECK-NEXT: %[[V:.*]] = "plan.view"(%[[C]]) {offset = 0 : i64} : (memref<3x2x2xf32, strided<[1, 6, 3]>>) -> memref<2x2x3xf32>
// CHECK-NEXT: %[[R:.*]] = "plan.view"(%[[X]]) {offset = 0 : i64} : (memref<6x8xf32>) -> memref<48xf32>
// CHECK-NEXT: "plan.return"(%[[V]], %[[R]], %[[X]], %[[O]])
// CHECK: arena_bytes = 0 : i64
func.func @main(%x: tensor<6x8xf32>) -> (tensor<2x2x3xf32>, tensor<48xf32>, tensor<6x8xf32>, tensor<2xi64>) {
  %k = arith.constant dense<[1, 2]> : tensor<2xi64>
  %s = tensor.extract_slice %x[1, 2] [4, 3] [1, 1] : tensor<6x8xf32> to tensor<4x3xf32>
  %p = tensor.expand_shape %s [[0, 1], [2]] output_shape [2, 2, 3] : tensor<4x3xf32> into tensor<2x2x3xf32>
  %e = tensor.empty() : tensor<3x2x2xf32>
  %t = linalg.transpose ins(%p : tensor<2x2x3xf32>) outs(%e : tensor<3x2x2xf32>) permutation = [2, 0, 1]
  %c = "graph.extern"(%t) {callee = "aten.cumsum.default", reason = "fallback", args = [unit, 0], kwargs = {}, strides = [array<i64: 1, 6, 3>]} : (tensor<3x2x2xf32>) -> tensor<3x2x2xf32>
  %e2 = tensor.empty() : tensor<2x2x3xf32>
  %b = linalg.transpose ins(%c : tensor<3x2x2xf32>) outs(%e2 : tensor<2x2x3xf32>) permutation = [1, 2, 0]
  %f = tensor.collapse_shape %x [[0, 1]] : tensor<6x8xf32> into tensor<48xf32>
  return %b, %f, %x, %k : tensor<2x2x3xf32>, tensor<48xf32>, tensor<6x8xf32>, tensor<2xi64>
}

// -----

// A collapse that strides cannot express makes the value be stored as its user wants it, or, of an input, copies.
// CHECK: "plan.program"() ({
// CHECK: %[[X:.*]] = "plan.input"() {dtype = "bool", index = 0 : i64} : () -> memref<3x4xi8>
// CHECK: %[[V:.*]] = "plan.view"(%[[X]]) {offset = 0 : i64} : (memref<3x4xi8>) -> memref<4x3xi8, strided<[1, 4]>>
// CHECK: %[[C:.*]] = "plan.alloc"() {bytes = 12 : i64, dtype = "bool", offset = 0 : i64} : () -> memref<4x3xi8>
// CHECK: "plan.launch"(%[[V]], %[[C]]) {kernel = @copy
// CHECK: %[[A:.*]] = "plan.alloc"() {bytes = 12 : i64, dtype = "bool", offset = 64 : i64} : () -> memref<3x4xi8, strided<[1, 3]>>
// CHECK: "plan.launch"(%[[X]], %[[A]]) {kernel = @not_1,
// CHECK: %[[W:.*]] = "plan.view"(%[[C]]) {offset = 0 : i64} : (memref<4x3xi8>) -> memref<12xi8>
// CHECK: %[[B:.*]] = "plan.view"(%[[A]]) {offset = 0 : i64} : (memref<3x4xi8, strided<[1, 3]>>) -> memref<12xi8>
// CHECK: "plan.call"(%[[W]], %[[B]])
// CHECK: func.func private @not_1(%{{.*}}: tensor<3x4xi1>) -> tensor<3x4xi1>
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%x: tensor<3x4xi1>) -> tensor<12xi1> {
  %e = tensor.empty() : tensor<4x3xi1>
  %t = linalg.transpose ins(%x : tensor<3x4xi1>) outs(%e : tensor<4x3xi1>) permutation = [1, 0]
  %f = tensor.collapse_shape %t [[0, 1]] : tensor<4x3xi1> into tensor<12xi1>
  %a = "graph.group"(%x) ({
  ^bb0(%in: tensor<3x4xi1>):
    %e1 = tensor.empty() : tensor<3x4xi1>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%in : tensor<3x4xi1>) outs(%e1 : tensor<3x4xi1>) {
    ^bb0(%i: i1, %o: i1):
      %c = arith.constant true
      %n = arith.xori %i, %c : i1
      linalg.yield %n : i1
    } -> tensor<3x4xi1>
    "graph.yield"(%r) : (tensor<3x4xi1>) -> ()
  }) {sym_name = "not"} : (tensor<3x4xi1>) -> tensor<3x4xi1>
  %u = linalg.transpose ins(%a : tensor<3x4xi1>) outs(%e : tensor<4x3xi1>) permutation = [1, 0]
  %g = tensor.collapse_shape %u [[0, 1]] : tensor<4x3xi1> into tensor<12xi1>
  %r = "graph.extern"(%f, %g) {callee = "my.xor.default", reason = "fallback", args = [unit, unit], kwargs = {}, strides = [array<i64: 1>]} : (tensor<12xi1>, tensor<12xi1>) -> tensor<12xi1>
  return %r : tensor<12xi1>
}

// -----

// A pointwise group writes over its dying input; its neighbor with a transposed read does not. Names come from the ops.
// CHECK: %[[A:.*]] = "plan.alloc"() {bytes = 256 : i64, offset = [[AT:[0-9]+]] : i64}
// CHECK: "plan.launch"(%{{.*}}, %[[A]]) {kernel = @exp_1, label = "exp"
// CHECK: %[[B:.*]] = "plan.alloc"() {bytes = 256 : i64, offset = [[AT]] : i64}
// CHECK: "plan.launch"(%[[A]], %[[B]]) {inplace = [array<i64: 0, 1>], kernel = @exp_1, label = "exp"
// CHECK: %[[C:.*]] = "plan.alloc"()
// CHECK: "plan.launch"(%[[B]], %[[C]]) {kernel = @add_t
// CHECK: arena_bytes = 512 : i64, lower_bound = 512 : i64, sum_bytes = 768 : i64
// CHECK: func.func private @exp_1({{.*}} attributes {graph.inplace = [array<i64: 0, 1>], graph.kernel}
#id = affine_map<(d0, d1) -> (d0, d1)>
#t = affine_map<(d0, d1) -> (d1, d0)>
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %a = "graph.group"(%x) ({
  ^bb0(%in: tensor<8x8xf32>):
    %e = tensor.empty() : tensor<8x8xf32>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%in : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
    ^bb0(%i: f32, %o: f32):
      %y = math.exp %i : f32
      linalg.yield %y : f32
    } -> tensor<8x8xf32> loc("aten.exp.default"("m.py":3:0))
    "graph.yield"(%r) : (tensor<8x8xf32>) -> ()
  }) {sym_name = ""} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = "graph.group"(%a) ({
  ^bb0(%in: tensor<8x8xf32>):
    %e = tensor.empty() : tensor<8x8xf32>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%in : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
    ^bb0(%i: f32, %o: f32):
      %y = math.exp %i : f32
      linalg.yield %y : f32
    } -> tensor<8x8xf32> loc("aten.exp.default"("m.py":4:0))
    "graph.yield"(%r) : (tensor<8x8xf32>) -> ()
  }) {sym_name = ""} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = "graph.group"(%b) ({
  ^bb0(%in: tensor<8x8xf32>):
    %e = tensor.empty() : tensor<8x8xf32>
    %r = linalg.generic {indexing_maps = [#id, #t, #id], iterator_types = ["parallel", "parallel"]} ins(%in, %in : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %y = arith.addf %i, %j : f32
      linalg.yield %y : f32
    } -> tensor<8x8xf32>
    "graph.yield"(%r) : (tensor<8x8xf32>) -> ()
  }) {sym_name = "add_t"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %r = "graph.extern"(%c, %w) {callee = "aten.mm.default", reason = "library", args = [unit, unit], kwargs = {}, strides = [array<i64: 8, 1>]} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}

// -----

// Results have the strides they ask for. One value returned twice leaves in two memories, unless it may be shared.
// CHECK: %[[O:.*]] = "plan.output"() {index = 0 : i64} : () -> memref<2x3xf32, strided<[1, 2]>>
// CHECK: "plan.launch"(%{{.*}}, %[[O]]) {kernel = @exp_1,
// CHECK: %[[P:.*]] = "plan.output"() {index = 1 : i64} : () -> memref<2x3xf32, strided<[1, 2]>>
// CHECK: "plan.launch"(%[[O]], %[[P]]) {kernel = @copy,
// CHECK: "plan.return"(%[[O]], %[[P]], %[[O]])
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32> {graph.strides = array<i64: 1, 2>}, tensor<2x3xf32>, tensor<2x3xf32> {graph.shares = 0 : i64}) {
  %a = "graph.group"(%x) ({
  ^bb0(%in: tensor<2x3xf32>):
    %e = tensor.empty() : tensor<2x3xf32>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%in : tensor<2x3xf32>) outs(%e : tensor<2x3xf32>) {
    ^bb0(%i: f32, %o: f32):
      %y = math.exp %i : f32
      linalg.yield %y : f32
    } -> tensor<2x3xf32>
    "graph.yield"(%r) : (tensor<2x3xf32>) -> ()
  }) {sym_name = "exp"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %a, %a, %a : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// What an external view may share lives on, and does not leave the call. Constants hoisted out of a group return to it.
// CHECK: %[[A:.*]] = "plan.alloc"() {bytes = 16 : i64, offset = 0 : i64}
// CHECK: "plan.launch"(%{{.*}}, %[[A]]) {kernel = @add,
// CHECK: %[[V:.*]] = "plan.call"(%[[A]]) {args = [unit, "torch.int32"], callee = "aten.view.dtype"
// CHECK: %[[B:.*]] = "plan.alloc"() {bytes = 16 : i64, offset = 64 : i64}
// CHECK: "plan.launch"(%{{.*}}, %[[B]]) {kernel = @add,
// CHECK: %[[O:.*]] = "plan.output"() {index = 0 : i64} : () -> memref<4xi32>
// CHECK: "plan.launch"(%[[V]], %[[O]]) {kernel = @copy,
// CHECK: "plan.return"(%[[O]],
// CHECK: func.func private @add
// CHECK: arith.constant 1.0
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xf32>) -> (tensor<4xi32>, tensor<4xf32>) {
  %one = arith.constant 1.0 : f32
  %a = "graph.group"(%x) ({
  ^bb0(%in: tensor<4xf32>):
    %e = tensor.empty() : tensor<4xf32>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%in : tensor<4xf32>) outs(%e : tensor<4xf32>) {
    ^bb0(%i: f32, %o: f32):
      %y = arith.addf %i, %one : f32
      linalg.yield %y : f32
    } -> tensor<4xf32>
    "graph.yield"(%r) : (tensor<4xf32>) -> ()
  }) {sym_name = "add"} : (tensor<4xf32>) -> tensor<4xf32>
  %v = "graph.extern"(%a) {callee = "aten.view.dtype", reason = "fallback", args = [unit, "torch.int32"], kwargs = {}, strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<4xi32>
  %b = "graph.group"(%x) ({
  ^bb0(%in: tensor<4xf32>):
    %e = tensor.empty() : tensor<4xf32>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%in : tensor<4xf32>) outs(%e : tensor<4xf32>) {
    ^bb0(%i: f32, %o: f32):
      %y = arith.addf %i, %one : f32
      linalg.yield %y : f32
    } -> tensor<4xf32>
    "graph.yield"(%r) : (tensor<4xf32>) -> ()
  }) {sym_name = "add"} : (tensor<4xf32>) -> tensor<4xf32>
  %s = "graph.extern"(%b) {callee = "aten.sin.default", reason = "fallback", args = [unit], kwargs = {}, strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %v, %s : tensor<4xi32>, tensor<4xf32>
}

// -----

// Equal groups share a function wherever their constants and the memory of their results stand.
// CHECK: "plan.launch"({{.*}}) {kernel = @sum, label = "sum"
// CHECK: "plan.launch"({{.*}}) {kernel = @sum, label = "sum_2"
// CHECK: func.func private @sum(
// CHECK-NOT: func.func
#two = affine_map<(d0, d1) -> (d0, d1)>
#one = affine_map<(d0, d1) -> (d0)>
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = "graph.group"(%x) ({
  ^bb0(%in: tensor<4x8xf32>):
    %zero = arith.constant 0.0 : f32
    %two = arith.constant 2.0 : f32
    %e = tensor.empty() : tensor<4x8xf32>
    %s = tensor.empty() : tensor<4xf32>
    %f = linalg.fill ins(%zero : f32) outs(%s : tensor<4xf32>) -> tensor<4xf32>
    %d = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]} ins(%in : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%i: f32, %o: f32):
      %v = arith.mulf %i, %two : f32
      linalg.yield %v : f32
    } -> tensor<4x8xf32>
    %r = linalg.generic {indexing_maps = [#two, #one], iterator_types = ["parallel", "reduction"]} ins(%d : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
    ^bb0(%i: f32, %o: f32):
      %v = arith.addf %i, %o : f32
      linalg.yield %v : f32
    } -> tensor<4xf32>
    "graph.yield"(%r) : (tensor<4xf32>) -> ()
  }) {sym_name = "sum"} : (tensor<4x8xf32>) -> tensor<4xf32>
  %b = "graph.group"(%y) ({
  ^bb0(%in: tensor<4x8xf32>):
    %two = arith.constant 2.0 : f32
    %e = tensor.empty() : tensor<4x8xf32>
    %d = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]} ins(%in : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%i: f32, %o: f32):
      %v = arith.mulf %i, %two : f32
      linalg.yield %v : f32
    } -> tensor<4x8xf32>
    %s = tensor.empty() : tensor<4xf32>
    %zero = arith.constant 0.0 : f32
    %f = linalg.fill ins(%zero : f32) outs(%s : tensor<4xf32>) -> tensor<4xf32>
    %r = linalg.generic {indexing_maps = [#two, #one], iterator_types = ["parallel", "reduction"]} ins(%d : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
    ^bb0(%i: f32, %o: f32):
      %v = arith.addf %i, %o : f32
      linalg.yield %v : f32
    } -> tensor<4xf32>
    "graph.yield"(%r) : (tensor<4xf32>) -> ()
  }) {sym_name = "sum_2"} : (tensor<4x8xf32>) -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// -----

// A user's kernel writes into the plan's memory and gets its operands with the strides that it was promised: a value is made in them,
// an argument that has others is copied.
// CHECK: "plan.launch"(%{{.*}}, %[[A:.*]]) {kernel = @neg,
// CHECK: %[[C:.*]] = "plan.alloc"() {{.*}} : () -> memref<4x8xf32, strided<[1, 4]>>
// CHECK: "plan.launch"(%{{.*}}, %[[C]]) {kernel = @copy,
// CHECK: %[[O:.*]] = "plan.output"() {index = 0 : i64}
// CHECK: "plan.kernel"(%[[A]], %[[C]], %[[O]]) {{.*}}n_out = 1 : i64}
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a = "graph.group"(%x) ({
  ^bb0(%in: tensor<4x8xf32>):
    %e = tensor.empty() : tensor<4x8xf32>
    %d = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%in : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%i: f32, %o: f32):
      %v = arith.negf %i : f32
      linalg.yield %v : f32
    } -> tensor<4x8xf32>
    "graph.yield"(%d) : (tensor<4x8xf32>) -> ()
  }) {sym_name = "neg"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = "graph.kernel"(%a, %x) {callee = "lamina.kernel.default", kwargs = {}, strides = [array<i64: 8, 1>], needs = [array<i64: 1, 4>, array<i64: 1, 4>]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// -----

// Names that mean something in Python and in the text of Triton kernels are not those of kernels.
// CHECK: kernel = @lambda_1, label = "lambda"
// CHECK: kernel = @tl_1, label = "tl"
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "graph.group"(%x) ({
  ^bb0(%in: tensor<4xf32>):
    %e = tensor.empty() : tensor<4xf32>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%in : tensor<4xf32>) outs(%e : tensor<4xf32>) {
    ^bb0(%i: f32, %o: f32):
      %y = arith.negf %i : f32
      linalg.yield %y : f32
    } -> tensor<4xf32>
    "graph.yield"(%r) : (tensor<4xf32>) -> ()
  }) {sym_name = "lambda"} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "graph.group"(%a) ({
  ^bb0(%in: tensor<4xf32>):
    %e = tensor.empty() : tensor<4xf32>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%in : tensor<4xf32>) outs(%e : tensor<4xf32>) {
    ^bb0(%i: f32, %o: f32):
      %y = math.exp %i : f32
      linalg.yield %y : f32
    } -> tensor<4xf32>
    "graph.yield"(%r) : (tensor<4xf32>) -> ()
  }) {sym_name = "tl"} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// -----

// Complex tensors are real ones with a last dimension of two. What is complex for the caller, or for a routine, is told.
// CHECK: "plan.input"() {complex, index = 0 : i64} : () -> memref<3x2xf32>
// CHECK: %[[R:.*]] = "plan.call"(%{{.*}}) {{.*}}callee = "complex.aten.repeat.default", complex = array<i1: true, true>
// CHECK: "plan.launch"(%[[R]], %[[C:.*]]) {kernel = @copy
// CHECK: "plan.return"(%[[R]], %[[C]]) {complex = array<i1: true, false>}
func.func @main(%x: tensor<3x2xf32> {graph.complex}) -> (tensor<6x2xf32> {graph.complex}, tensor<6x2xf32>) {
  %r = "graph.extern"(%x) {args = [unit, [2]], callee = "complex.aten.repeat.default", complex = array<i1: true, true>, kwargs = {},
      needs = [array<i64: 2, 1>], reason = "fallback", strides = [array<i64: 2, 1>]} : (tensor<3x2xf32>) -> tensor<6x2xf32>
  return %r, %r : tensor<6x2xf32>, tensor<6x2xf32>
}

// -----

// A kernel's result that a convolution reads through a reshape is stored as the convolution takes it: its channels last.
// CHECK: "plan.launch"({{.*}}memref<2x8x3x4x2xf32, strided<[192, 1, 64, 16, 8]>>)
// CHECK: "plan.call"({{.*}} : (memref<2x8x3x8xf32, strided<[192, 1, 64, 8]>>,
#in = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>
#out = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
func.func @main(%x: tensor<2x8x3x4xf32>, %w: tensor<8x1x1x1xf32>) -> tensor<2x8x3x8xf32> {
  %a = "graph.group"(%x) ({
  ^bb0(%in: tensor<2x8x3x4xf32>):
    %e = tensor.empty() : tensor<2x8x3x4x2xf32>
    %r = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
        ins(%in : tensor<2x8x3x4xf32>) outs(%e : tensor<2x8x3x4x2xf32>) {
    ^bb0(%i: f32, %o: f32):
      linalg.yield %i : f32
    } -> tensor<2x8x3x4x2xf32>
    "graph.yield"(%r) : (tensor<2x8x3x4x2xf32>) -> ()
  }) {sym_name = "repeat"} : (tensor<2x8x3x4xf32>) -> tensor<2x8x3x4x2xf32>
  %b = tensor.collapse_shape %a [[0], [1], [2], [3, 4]] : tensor<2x8x3x4x2xf32> into tensor<2x8x3x8xf32>
  %c = "graph.extern"(%b, %w) {args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 8], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 192, 1, 64, 8>]}
      : (tensor<2x8x3x8xf32>, tensor<8x1x1x1xf32>) -> tensor<2x8x3x8xf32>
  return %c : tensor<2x8x3x8xf32>
}

// -----

// What nobody asks to lie in some way lies as most of what its kernel reads and writes: no kernel transposes.
// CHECK: "plan.program"() ({
// CHECK: "plan.launch"(%{{[0-9]+}}, %[[MASK:[0-9]+]], %[[SUM:[0-9]+]]) {kernel = @relu, label = "relu", n_out = 2 : i64} : (memref<2x4x8xf32, strided<[32, 1, 4]>>, memref<2x4x8xi8, strided<[32, 1, 4]>>, memref<2x4x8xf32, strided<[32, 1, 4]>>)
#id3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
module {
  func.func @main(%x: tensor<2x4x8xf32> {graph.strides = array<i64: 32, 1, 4>}) -> (tensor<2x4x8xi1>, tensor<2x4x8xf32>) {
    %a:2 = "graph.group"(%x) ({
    ^bb0(%in: tensor<2x4x8xf32>):
      %e = tensor.empty() : tensor<2x4x8xi1>
      %f = tensor.empty() : tensor<2x4x8xf32>
      %r:2 = linalg.generic {indexing_maps = [#id3, #id3, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%in : tensor<2x4x8xf32>) outs(%e, %f : tensor<2x4x8xi1>, tensor<2x4x8xf32>) {
      ^bb0(%i: f32, %m: i1, %o: f32):
        %c = arith.constant 0.0 : f32
        %p = arith.cmpf ogt, %i, %c : f32
        %y = arith.maximumf %i, %c : f32
        linalg.yield %p, %y : i1, f32
      } -> (tensor<2x4x8xi1>, tensor<2x4x8xf32>)
      "graph.yield"(%r#0, %r#1) : (tensor<2x4x8xi1>, tensor<2x4x8xf32>) -> ()
    }) {sym_name = "relu"} : (tensor<2x4x8xf32>) -> (tensor<2x4x8xi1>, tensor<2x4x8xf32>)
    return %a#0, %a#1 : tensor<2x4x8xi1>, tensor<2x4x8xf32>
  }
}

// -----

// Rows that a product reads through an image and back are stored as they are computed: no view of them needs a copy.
// CHECK: "plan.launch"({{.*}} : (memref<2x16x8xf32>, memref<2x16x8xf32>)
// CHECK: "plan.call"({{.*}} : (memref<2x16x8xf32>, memref<2x8x4xf32>,
#rows = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @main(%x: tensor<2x16x8xf32>, %w: tensor<2x8x4xf32>) -> tensor<2x16x4xf32> {
  %a = "graph.group"(%x) ({
  ^bb0(%in: tensor<2x16x8xf32>):
    %e = tensor.empty() : tensor<2x16x8xf32>
    %r = linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel", "parallel"]} ins(%in : tensor<2x16x8xf32>) outs(%e : tensor<2x16x8xf32>) {
    ^bb0(%i: f32, %o: f32):
      %y = math.exp %i : f32
      linalg.yield %y : f32
    } -> tensor<2x16x8xf32>
    "graph.yield"(%r) : (tensor<2x16x8xf32>) -> ()
  }) {sym_name = "exp"} : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
  %image = tensor.expand_shape %a [[0], [1, 2], [3]] output_shape [2, 4, 4, 8] : tensor<2x16x8xf32> into tensor<2x4x4x8xf32>
  %e4 = tensor.empty() : tensor<2x8x4x4xf32>
  %first = linalg.transpose ins(%image : tensor<2x4x4x8xf32>) outs(%e4 : tensor<2x8x4x4xf32>) permutation = [0, 3, 1, 2]
  %flat = tensor.collapse_shape %first [[0], [1], [2, 3]] : tensor<2x8x4x4xf32> into tensor<2x8x16xf32>
  %e3 = tensor.empty() : tensor<2x16x8xf32>
  %last = linalg.transpose ins(%flat : tensor<2x8x16xf32>) outs(%e3 : tensor<2x16x8xf32>) permutation = [0, 2, 1]
  %y = "graph.extern"(%last, %w) {args = [unit, unit], callee = "aten.bmm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 4, 1>]}
      : (tensor<2x16x8xf32>, tensor<2x8x4xf32>) -> tensor<2x16x4xf32>
  return %y : tensor<2x16x4xf32>
}

// -----

// A result that is asked for with neighbors far apart is no reason for a kernel that reduces rows to want its operand so.
// CHECK: "plan.program"() ({
// CHECK: "plan.launch"(%{{.*}}) {kernel = @exp{{.*}} : (memref<2x4x8xf32>, memref<2x4x8xf32>)
// CHECK: "plan.launch"(%{{.*}}) {kernel = @norm{{.*}} : (memref<2x4x8xf32>, memref<2x4x8xf32, strided<[32, 1, 4]>>)
#all = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
module {
  func.func @main(%x: tensor<2x4x8xf32>) -> (tensor<2x4x8xf32> {graph.strides = array<i64: 32, 1, 4>}) {
    %a = "graph.group"(%x) ({
    ^bb0(%in: tensor<2x4x8xf32>):
      %e = tensor.empty() : tensor<2x4x8xf32>
      %r = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%in : tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
      ^bb0(%i: f32, %o: f32):
        %y = math.exp %i : f32
        linalg.yield %y : f32
      } -> tensor<2x4x8xf32>
      "graph.yield"(%r) : (tensor<2x4x8xf32>) -> ()
    }) {sym_name = "exp"} : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    %b = "graph.group"(%a) ({
    ^bb0(%in: tensor<2x4x8xf32>):
      %z = arith.constant dense<0.0> : tensor<2x4xf32>
      %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%in : tensor<2x4x8xf32>) outs(%z : tensor<2x4xf32>) {
      ^bb0(%i: f32, %o: f32):
        %y = arith.addf %i, %o : f32
        linalg.yield %y : f32
      } -> tensor<2x4xf32>
      %e = tensor.empty() : tensor<2x4x8xf32>
      %r = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%in, %s : tensor<2x4x8xf32>, tensor<2x4xf32>) outs(%e : tensor<2x4x8xf32>) {
      ^bb0(%i: f32, %t: f32, %o: f32):
        %y = arith.divf %i, %t : f32
        linalg.yield %y : f32
      } -> tensor<2x4x8xf32>
      "graph.yield"(%r) : (tensor<2x4x8xf32>) -> ()
    }) {sym_name = "norm"} : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    return %b : tensor<2x4x8xf32>
  }
}

// -----

// An argument may start at a multiple of fewer bytes than 16.
// CHECK: "plan.input"() {align = 4 : i64, index = 0 : i64} : () -> memref<4x8xf32, strided<[11, 1]>>
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%x: tensor<4x8xf32> {graph.strides = array<i64: 11, 1>, graph.align = 4 : i64}) -> tensor<4x8xf32> {
  %a = "graph.group"(%x) ({
  ^bb0(%in: tensor<4x8xf32>):
    %e = tensor.empty() : tensor<4x8xf32>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%in : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%i: f32, %o: f32):
      %y = math.exp %i : f32
      linalg.yield %y : f32
    } -> tensor<4x8xf32>
    "graph.yield"(%r) : (tensor<4x8xf32>) -> ()
  }) {sym_name = "exp"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %a : tensor<4x8xf32>
}

// -----

// What attention takes lies as eager gives it, though all that the kernel reads is transposed: heads are read element by element.
// CHECK: "plan.launch"(%{{.*}}) {kernel = @exp{{.*}} : (memref<2x4x8x16xf32, strided<[512, 128, 1, 8]>>, memref<2x4x8x16xf32>)
#heads = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
func.func @main(%x: tensor<2x4x8x16xf32> {graph.strides = array<i64: 512, 128, 1, 8>}) -> tensor<2x4x8x16xf32> {
  %a = "graph.group"(%x) ({
  ^bb0(%in: tensor<2x4x8x16xf32>):
    %e = tensor.empty() : tensor<2x4x8x16xf32>
    %r = linalg.generic {indexing_maps = [#heads, #heads], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%in : tensor<2x4x8x16xf32>) outs(%e : tensor<2x4x8x16xf32>) {
    ^bb0(%i: f32, %o: f32):
      %y = math.exp %i : f32
      linalg.yield %y : f32
    } -> tensor<2x4x8x16xf32>
    "graph.yield"(%r) : (tensor<2x4x8x16xf32>) -> ()
  }) {sym_name = "exp"} : (tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  %o:2 = "graph.extern"(%a, %a, %a) {callee = "aten._scaled_dot_product_flash_attention_for_cpu.default", reason = "library", args = [unit, unit, unit], kwargs = {}, strides = [array<i64: 512, 128, 16, 1>, array<i64: 32, 8, 1>]} : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return %o#0 : tensor<2x4x8x16xf32>
}
