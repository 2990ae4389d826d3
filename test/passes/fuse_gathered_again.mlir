// What two gathers read, such as the rows of an image that is resized along one axis after the other, is computed for each of them
// where that takes less time than storing it: a GPU does many operations while it moves an element.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-fuse{balance=16})' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-fuse)' | FileCheck %s --check-prefix=CPU

// CHECK: "graph.group"
// CHECK-NOT: "graph.group"
// CPU-COUNT-2: "graph.group"
#id = affine_map<(h, w) -> (h, w)>
#column = affine_map<(h, w) -> (w)>
func.func @main(%x: tensor<512x256xf32>, %left: tensor<512xi32>, %right: tensor<512xi32>) -> tensor<512x512xf32> {
  %e = tensor.empty() : tensor<512x256xf32>
  %rows = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<512x256xf32>) outs(%e : tensor<512x256xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    %1 = math.sqrt %0 : f32
    linalg.yield %1 : f32
  } -> tensor<512x256xf32>
  %f = tensor.empty() : tensor<512x512xf32>
  %one = linalg.generic {indexing_maps = [#column, #id], iterator_types = ["parallel", "parallel"]} ins(%left : tensor<512xi32>) outs(%f : tensor<512x512xf32>) {
  ^bb0(%a: i32, %o: f32):
    %at = arith.index_cast %a : i32 to index
    %h = linalg.index 0 : index
    %0 = tensor.extract %rows[%h, %at] {graph.checked} : tensor<512x256xf32>
    linalg.yield %0 : f32
  } -> tensor<512x512xf32>
  %both = linalg.generic {indexing_maps = [#column, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%right, %one : tensor<512xi32>, tensor<512x512xf32>) outs(%f : tensor<512x512xf32>) {
  ^bb0(%a: i32, %b: f32, %o: f32):
    %at = arith.index_cast %a : i32 to index
    %h = linalg.index 0 : index
    %0 = tensor.extract %rows[%h, %at] {graph.checked} : tensor<512x256xf32>
    %1 = arith.addf %0, %b : f32
    linalg.yield %1 : f32
  } -> tensor<512x512xf32>
  return %both : tensor<512x512xf32>
}
