// Sizes that each call decides get their names in the types of tensors, and moves become tensor ops.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-name-sizes)' | FileCheck %s
// RUN: opt-driver %S/Inputs/name_sizes_errors.mlir --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(lamina-name-sizes)'

// Names go from arguments through arithmetic on sizes, elementwise ops and reductions; graph.sizes of the arguments is gone.
// CHECK-LABEL: func.func @main(%arg0: tensor<?x?xf32, ["s0~8", "s1~128"]> {graph.strides = ["s1~128", 1]})
// CHECK-SAME: -> (tensor<?x?xf32, ["s0~8", "s1~128"]>, tensor<?xf32, ["s0~8"]>, tensor<?x2x?xf32, ["s0~8", 2, "((s1~128)//(2))"]>)
// CHECK-NOT: tensor.dim
// CHECK-DAG: %[[B:.*]] = "graph.size"() {size = "s0~8"} : () -> index
// CHECK-DAG: %[[L:.*]] = "graph.size"() {size = "s1~128"} : () -> index
// CHECK: tensor.empty(%[[B]], %[[L]]) : tensor<?x?xf32, ["s0~8", "s1~128"]>
// CHECK: } -> tensor<?x?xf32, ["s0~8", "s1~128"]>
// CHECK: linalg.fill {{.*}} -> tensor<?xf32, ["s0~8"]>
// CHECK: } -> tensor<?xf32, ["s0~8"]>
// CHECK-NOT: arith.divsi
// CHECK: %[[H:.*]] = "graph.size"() {size = "((s1~128)//(2))"} : () -> index
// CHECK: tensor.expand_shape %arg0 {{.*}} output_shape [%[[B]], 2, %[[H]]]
func.func @main(%x: tensor<?x?xf32> {graph.sizes = ["s0~8", "s1~128"], graph.strides = ["s1~128", 1]}) -> (tensor<?x?xf32>, tensor<?xf32>, tensor<?x2x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %d0 = tensor.dim %x, %c0 : tensor<?x?xf32>
  %d1 = tensor.dim %x, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%d0, %d1) : tensor<?x?xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = math.exp %a : f32
    linalg.yield %t : f32
  } -> tensor<?x?xf32>
  %r = tensor.empty(%d0) : tensor<?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%r : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%y : tensor<?x?xf32>) outs(%f : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<?xf32>
  %i1 = arith.index_cast %d1 : index to i64
  %two = arith.constant 2 : i64
  %half = arith.divsi %i1, %two : i64
  %h = arith.index_cast %half : i64 to index
  %w = tensor.expand_shape %x [[0], [1, 2]] output_shape [%d0, 2, %h] : tensor<?x?xf32> into tensor<?x2x?xf32>
  return %y, %s, %w : tensor<?x?xf32>, tensor<?xf32>, tensor<?x2x?xf32>
}

// -----

// Every move; numbers among their arguments may be sizes, too.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: tensor.collapse_shape %arg0 {{\[}}[0, 1], [2]] : {{.*}} into tensor<?x16xf32, ["s0~8*s1~128", 16]>
// CHECK: linalg.generic {indexing_maps = [#[[ROW:.*]], #{{.*}}], iterator_types = ["parallel", "parallel"]} ins(%arg2 : tensor<1x16xf32>)
// CHECK: } -> tensor<?x16xf32, ["s0~8", 16]>
// CHECK: %[[START:.*]] = "graph.size"() {size = "s0~8"}
// CHECK: %[[LENGTH:.*]] = "graph.size"() {size = "-s0~8 + s1~128"}
// CHECK: tensor.extract_slice %arg0[0, %[[START]], 0] [%{{.*}}, %[[LENGTH]], 16] [1, 1, 1]
// CHECK: tensor.extract_slice %arg0[0, 0, 1] [%{{.*}}, %{{.*}}, 4] [1, 1, 4]
// CHECK: tensor.extract_slice %arg0[1, 0, 0] [1, %{{.*}}, 16] [1, 1, 1] : {{.*}} to tensor<?x16xf32, ["s1~128", 16]>
// CHECK: %[[LAST:.*]] = "graph.size"() {size = "s1~128 - 1"}
// CHECK: tensor.extract_slice %arg0[0, %[[LAST]], 0] [%{{.*}}, 1, 16] [1, 1, 1] : {{.*}} to tensor<?x16xf32, ["s0~8", 16]>
// CHECK: tensor.concat dim(0) %arg0, %arg1 : {{.*}} -> tensor<?x?x16xf32, ["s0~8 + s2~3", "s1~128", 16]>
// CHECK: %[[FROM:.*]] = "graph.size"() {size = "-s0~8 + s1~128"}
// CHECK: tensor.extract_slice %arg0[0, %[[FROM]], 0]
// CHECK-NOT: func.func private
func.func @main(%x: tensor<?x?x16xf32> {graph.sizes = ["s0~8", "s1~128", 16]}, %y: tensor<?x?x16xf32> {graph.sizes = ["s2~3", "s1~128", 16]}, %row: tensor<1x16xf32>)
    -> (tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x?x16xf32>, tensor<?x?x4xf32>, tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x?x16xf32>, tensor<?x?x16xf32>) {
  %0 = call @view(%x) : (tensor<?x?x16xf32>) -> tensor<?x16xf32>
  %1 = call @expand(%row) : (tensor<1x16xf32>) -> tensor<?x16xf32>
  %2 = call @slice_dim(%x) : (tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
  %3 = call @slice_step(%x) : (tensor<?x?x16xf32>) -> tensor<?x?x4xf32>
  %4 = call @select(%x) : (tensor<?x?x16xf32>) -> tensor<?x16xf32>
  %5 = call @select_last(%x) : (tensor<?x?x16xf32>) -> tensor<?x16xf32>
  %6 = call @cat(%x, %y) : (tensor<?x?x16xf32>, tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
  %7 = call @slice_from_the_end(%x) : (tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x?x16xf32>, tensor<?x?x4xf32>, tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x?x16xf32>, tensor<?x?x16xf32>
}
func.func private @view(tensor<?x?x16xf32>) -> tensor<?x16xf32> attributes {
  graph.move = "aten.view.default", graph.args = [unit, [{size = "s0~8*s1~128"}, 16]], graph.kwargs = {}, graph.sizes = [["s0~8*s1~128", 16]]}
func.func private @expand(tensor<1x16xf32>) -> tensor<?x16xf32> attributes {
  graph.move = "aten.expand.default", graph.args = [unit, [{size = "s0~8"}, 16]], graph.kwargs = {}, graph.sizes = [["s0~8", 16]]}
func.func private @slice_dim(tensor<?x?x16xf32>) -> tensor<?x?x16xf32> attributes {
  graph.move = "aten.slice.Tensor", graph.args = [unit, 1, {size = "s0~8"}, 9223372036854775807], graph.kwargs = {}, graph.sizes = [["s0~8", "s1~128 - s0~8", 16]]}
func.func private @slice_from_the_end(tensor<?x?x16xf32>) -> tensor<?x?x16xf32> attributes {
  graph.move = "aten.slice.Tensor", graph.args = [unit, 1, {size = "-s0~8"}, 9223372036854775807], graph.kwargs = {}, graph.sizes = [["s0~8", "s0~8", 16]]}
func.func private @slice_step(tensor<?x?x16xf32>) -> tensor<?x?x4xf32> attributes {
  graph.move = "aten.slice.Tensor", graph.args = [unit, -1, 1, 16, 4], graph.kwargs = {}, graph.sizes = [["s0~8", "s1~128", 4]]}
func.func private @select(tensor<?x?x16xf32>) -> tensor<?x16xf32> attributes {
  graph.move = "aten.select.int", graph.args = [unit, 0, 1], graph.kwargs = {}, graph.sizes = [["s1~128", 16]]}
func.func private @select_last(tensor<?x?x16xf32>) -> tensor<?x16xf32> attributes {
  graph.move = "aten.select.int", graph.args = [unit, 1, -1], graph.kwargs = {}, graph.sizes = [["s0~8", 16]]}
func.func private @cat(tensor<?x?x16xf32>, tensor<?x?x16xf32>) -> tensor<?x?x16xf32> attributes {
  graph.move = "aten.cat.default", graph.args = [[unit, unit]], graph.kwargs = {}, graph.sizes = [["s0~8 + s2~3", "s1~128", 16]]}

// -----

// A start may count more elements from the end than there are: the rest of 24 elements from the hundredth last on is all of them.
// CHECK-LABEL: func.func @main
// CHECK: tensor.extract_slice %arg0[0] [%{{.*}}] [1] : tensor<?xf32, ["s0~24"]> to tensor<?xf32, ["s0~24"]>
// CHECK: %[[FROM:.*]] = "graph.size"() {size = "max(0, s0~24 - 100)"}
// CHECK: tensor.extract_slice %arg0[%[[FROM]]] [%{{.*}}] [1]
func.func @main(%x: tensor<?xf32> {graph.sizes = ["s0~24"]}) -> (tensor<?xf32>, tensor<?xf32>) {
  %0 = call @rest(%x) : (tensor<?xf32>) -> tensor<?xf32>
  %1 = call @all_but_one(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return %0, %1 : tensor<?xf32>, tensor<?xf32>
}
func.func private @rest(tensor<?xf32>) -> tensor<?xf32> attributes {
  graph.move = "aten.slice.Tensor", graph.args = [unit, 0, -100, 9223372036854775807], graph.kwargs = {}, graph.sizes = [["s0~24"]]}
func.func private @all_but_one(tensor<?xf32>) -> tensor<?xf32> attributes {
  graph.move = "aten.slice.Tensor", graph.args = [unit, 0, -100, -1], graph.kwargs = {}, graph.sizes = [["s0~24 - 1"]]}

// -----

// What makes tensors of sizes.
// CHECK-LABEL: func.func @main
// CHECK: linalg.fill ins(%{{.*}} : f32) {{.*}} -> tensor<?xf32, ["s0~8 + 1"]>
// CHECK: %[[ONE:.*]] = arith.constant 1.0
// CHECK: linalg.fill ins(%[[ONE]] : f32) {{.*}} -> tensor<?xf32, ["s0~8"]>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<?xi64, ["s0~8 - 3"]>)
// CHECK: arith.addi %{{.*}}, %c3_i64
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<?xi64, ["s0~8"]>)
// CHECK: %[[TWICE:.*]] = arith.muli %{{.*}}, %c2_i64
// CHECK: %[[FROM:.*]] = arith.index_cast
// CHECK: arith.addi %[[TWICE]], %[[FROM]]
// CHECK: %[[SIZE:.*]] = "graph.size"() {size = "2*s0~8"} : () -> index
// CHECK: %[[WHOLE:.*]] = arith.index_cast %[[SIZE]] : index to i64
// CHECK: %[[NUMBER:.*]] = arith.sitofp %[[WHOLE]] : i64 to f32
// CHECK: linalg.fill ins(%[[NUMBER]] : f32)
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<?xf64, ["2*s0~8"]>)
// CHECK: arith.mulf {{.*}} : f64
// CHECK: linalg.fill ins(%{{.*}} : i64) outs(%{{.*}} : tensor<i64>) -> tensor<i64>
func.func @main(%x: tensor<?xf32> {graph.sizes = ["s0~8"]}) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?xf32>, tensor<?xf64>, tensor<i64>) {
  %0 = call @full() : () -> tensor<?xf32>
  %1 = call @ones(%x) : (tensor<?xf32>) -> tensor<?xf32>
  %2 = call @arange() : () -> tensor<?xi64>
  %3 = call @iota() : () -> tensor<?xi64>
  %4 = call @full_of_size() : () -> tensor<?xf32>
  %5 = call @arange_step() : () -> tensor<?xf64>
  %6 = call @scalar() : () -> tensor<i64>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<?xf32>, tensor<?xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?xf32>, tensor<?xf64>, tensor<i64>
}
func.func private @full() -> tensor<?xf32> attributes {
  graph.move = "aten.full.default", graph.args = [[{size = "s0~8 + 1"}], 2.5], graph.kwargs = {}, graph.sizes = [["s0~8 + 1"]]}
func.func private @ones(tensor<?xf32>) -> tensor<?xf32> attributes {
  graph.move = "aten.ones_like.default", graph.args = [unit], graph.kwargs = {}, graph.sizes = [["s0~8"]]}
func.func private @arange() -> tensor<?xi64> attributes {
  graph.move = "aten.arange.start", graph.args = [3, {size = "s0~8"}], graph.kwargs = {}, graph.sizes = [["s0~8 - 3"]]}
func.func private @iota() -> tensor<?xi64> attributes {
  graph.move = "prims.iota.default", graph.args = [{size = "s0~8"}], graph.kwargs = {start = {size = "s0~8"}, step = 2}, graph.sizes = [["s0~8"]]}
func.func private @full_of_size() -> tensor<?xf32> attributes {
  graph.move = "aten.full.default", graph.args = [[{size = "s0~8"}], {size = "2*s0~8"}], graph.kwargs = {}, graph.sizes = [["s0~8"]]}
func.func private @arange_step() -> tensor<?xf64> attributes {
  graph.move = "aten.arange.start_step", graph.args = [0, {size = "s0~8"}, 0.5], graph.kwargs = {}, graph.sizes = [["2*s0~8"]]}
func.func private @scalar() -> tensor<i64> attributes {
  graph.move = "aten.scalar_tensor.default", graph.args = [{size = "s0~8"}], graph.kwargs = {}, graph.sizes = [[]]}

// -----

// Pads, negative ones too, which cut; what is read from the other end; and repetitions, which broadcast.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = "graph.size"() {size = "s0~8"}
// CHECK: tensor.pad %arg0 low[0, 1] high[0, %[[B]]]
// CHECK: to tensor<?x?xf32, ["s0~8", "s0~8 + s1~128 + 1"]>
// CHECK: %[[CUT:.*]] = tensor.extract_slice %arg0[0, 1] {{.*}} to tensor<?x?xf32, ["s0~8 - 1", "s1~128 - 1"]>
// CHECK: tensor.pad %[[CUT]] low[0, 0] high[0, 2]
// CHECK: to tensor<?x?xf32, ["s0~8 - 1", "s1~128 + 1"]>
// CHECK: %[[END:.*]] = "graph.size"() {size = "s1~128 - 1"}
// CHECK: %[[AT:.*]] = arith.subi %[[END]], %{{.*}} : index
// CHECK: tensor.extract %arg0[%{{.*}}, %[[AT]]] {graph.checked}
// CHECK: %[[APART:.*]] = tensor.expand_shape %arg0 {{.*}} output_shape [1, %{{.*}}, 1, %{{.*}}]
// CHECK: linalg.generic {{.*}} ins(%[[APART]] : {{.*}}) outs(%{{.*}} : tensor<2x?x3x?xf32, [2, "s0~8", 3, "s1~128"]>)
// CHECK: tensor.collapse_shape {{.*}} into tensor<?x?xf32, ["2*s0~8", "3*s1~128"]>
func.func @main(%x: tensor<?x?xf32> {graph.sizes = ["s0~8", "s1~128"]}) -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>) {
  %0 = call @pad(%x) : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %1 = call @cut(%x) : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %2 = call @flip(%x) : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %3 = call @repeat(%x) : (tensor<?x?xf32>) -> tensor<?x?xf32>
  return %0, %1, %2, %3 : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>
}
func.func private @pad(tensor<?x?xf32>) -> tensor<?x?xf32> attributes {
  graph.move = "aten.constant_pad_nd.default", graph.args = [unit, [1, {size = "s0~8"}], 1.5], graph.kwargs = {}, graph.sizes = [["s0~8", "s1~128 + s0~8 + 1"]]}
func.func private @cut(tensor<?x?xf32>) -> tensor<?x?xf32> attributes {
  graph.move = "aten.constant_pad_nd.default", graph.args = [unit, [-1, 2, 0, -1]], graph.kwargs = {}, graph.sizes = [["s0~8 - 1", "s1~128 + 1"]]}
func.func private @flip(tensor<?x?xf32>) -> tensor<?x?xf32> attributes {
  graph.move = "aten.flip.default", graph.args = [unit, [-1]], graph.kwargs = {}, graph.sizes = [["s0~8", "s1~128"]]}
func.func private @repeat(tensor<?x?xf32>) -> tensor<?x?xf32> attributes {
  graph.move = "aten.repeat.default", graph.args = [unit, [2, 3]], graph.kwargs = {}, graph.sizes = [["2*s0~8", "3*s1~128"]]}

// -----

// A view of which no factors serve both shapes merges dimensions before it splits them.
// CHECK-LABEL: func.func @main
// CHECK: %[[FLAT:.*]] = tensor.collapse_shape %arg0 {{\[\[}}0], [1, 2]{{\]}} : {{.*}} into tensor<3x?xf32, [3, "s0~8*s0~8 + s0~8"]>
// CHECK: tensor.expand_shape %[[FLAT]] {{\[\[}}0], [1, 2]{{\]}} {{.*}} into tensor<3x?x?xf32, [3, "s0~8 + 1", "s0~8"]>
func.func @main(%x: tensor<3x?x?xf32> {graph.sizes = [3, "s0~8", "s0~8 + 1"]}) -> tensor<3x?x?xf32> {
  %0 = call @view(%x) : (tensor<3x?x?xf32>) -> tensor<3x?x?xf32>
  return %0 : tensor<3x?x?xf32>
}
func.func private @view(tensor<3x?x?xf32>) -> tensor<3x?x?xf32> attributes {
  graph.move = "aten.view.default", graph.args = [unit, [3, {size = "s0~8 + 1"}, {size = "s0~8"}]], graph.kwargs = {}, graph.sizes = [[3, "s0~8 + 1", "s0~8"]]}

// -----

// What matmul expands to the sizes that it has stays as it is.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: return %arg0
func.func @main(%x: tensor<?x?xf32> {graph.sizes = ["s0~8", "s1~128"]}) -> tensor<?x?xf32> {
  %0 = call @expand(%x) : (tensor<?x?xf32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
func.func private @expand(tensor<?x?xf32>) -> tensor<?x?xf32> attributes {
  graph.move = "aten.expand.default", graph.args = [unit, [{size = "s0~8"}, {size = "s1~128"}]], graph.kwargs = {}, graph.sizes = [["s0~8", "s1~128"]]}

// -----

// Diagonals are read where they lie.
// CHECK-LABEL: func.func @main
// CHECK: %[[ROW:.*]] = linalg.index 1
// CHECK: %[[COLUMN:.*]] = arith.addi %[[ROW]], %c1
// CHECK: tensor.extract %arg0[%[[ROW]], %{{.*}}, %[[COLUMN]]] {graph.checked}
func.func @main(%x: tensor<?x?x?xf32> {graph.sizes = ["s0~8", "2*s1~5", "s0~8"]}) -> tensor<?x?xf32> {
  %0 = call @diagonal(%x) : (tensor<?x?x?xf32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
func.func private @diagonal(tensor<?x?x?xf32>) -> tensor<?x?xf32> attributes {
  graph.move = "aten.diagonal.default", graph.args = [unit, 1, 0, 2], graph.kwargs = {}, graph.sizes = [["2*s1~5", "s0~8 - 1"]]}

// -----

// A view whose sizes do not show that it has as many elements is made of the first elements of a row.
// CHECK-LABEL: func.func @main
// CHECK: %[[ROW:.*]] = tensor.collapse_shape %arg0 {{\[\[}}0, 1]{{\]}} : {{.*}} into tensor<?xf32, ["6*s0~8"]>
// CHECK: %[[SIZE:.*]] = "graph.size"() {size = "4*((3*s0~8)//(2))"}
// CHECK: %[[FIRST:.*]] = tensor.extract_slice %[[ROW]][0] [%[[SIZE]]] [1]
// CHECK: tensor.expand_shape %[[FIRST]] {{\[\[}}0, 1]{{\]}} {{.*}} into tensor<4x?xf32, [4, "((3*s0~8)//(2))"]>
func.func @main(%x: tensor<6x?xf32> {graph.sizes = [6, "s0~8"]}) -> tensor<4x?xf32> {
  %0 = call @view(%x) : (tensor<6x?xf32>) -> tensor<4x?xf32>
  return %0 : tensor<4x?xf32>
}
func.func private @view(tensor<6x?xf32>) -> tensor<4x?xf32> attributes {
  graph.move = "aten.view.default", graph.args = [unit, [4, -1]], graph.kwargs = {}, graph.sizes = [[4, "(6*s0~8)//4"]]}

// -----

// A view in another dtype, of fixed sizes too: torch-mlir has no lowering.
// CHECK-LABEL: func.func @main
// CHECK: arith.bitcast %{{.*}} : f32 to i32
func.func @main(%x: tensor<3x4xf32>) -> tensor<3x4xi32> {
  %0 = call @bits(%x) : (tensor<3x4xf32>) -> tensor<3x4xi32>
  return %0 : tensor<3x4xi32>
}
func.func private @bits(tensor<3x4xf32>) -> tensor<3x4xi32> attributes {
  graph.move = "aten.view.dtype", graph.args = [unit, "torch.int32"], graph.kwargs = {}, graph.sizes = [[3, 4]]}
