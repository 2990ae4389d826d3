// Small launches that do not wait for each other become one, of a function made of parts.
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a},lamina-horizontal{target=nvvm:sm_90a}' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a},lamina-horizontal{target=nvvm:sm_90a},lamina-distribute' | FileCheck %s --check-prefix=GPU

// The third launch, of the first's kernel, comes along; the last needs it and stays. Inputs first, then outputs.
// CHECK: %[[X:.*]] = "plan.input"() {index = 0 : i64}
// CHECK: %[[Y:.*]] = "plan.input"() {index = 1 : i64}
// CHECK: %[[Z:.*]] = "plan.input"() {index = 2 : i64}
// CHECK: %[[T:.*]] = "plan.alloc"() {bytes = 4000 : i64, offset = 0 : i64}
// CHECK: %[[A:.*]] = "plan.output"() {index = 0 : i64}
// CHECK: %[[B:.*]] = "plan.output"() {index = 1 : i64}
// CHECK-NEXT: "plan.launch"(%[[Y]], %[[X]], %[[Z]], %[[T]], %[[A]], %[[B]]) {kernel = @negate_x2_and_sum, label = "2 x negate, sum", n_out = 3 : i64}
// CHECK-NEXT: %[[C:.*]] = "plan.output"() {index = 2 : i64}
// CHECK-NEXT: "plan.launch"(%[[T]], %[[C]]) {kernel = @negate, label = "negate_3", n_out = 1 : i64}
// CHECK-NEXT: "plan.return"(%[[A]], %[[B]], %[[C]])

// The function's grid counts CTAs of 256 threads: two programs of a negation in each, one of the sum. Buffers of equal kernels go by the number.
// CHECK-LABEL: func.func private @negate_x2_and_sum
// CHECK-SAME: tile.grid = 4 : i64
// CHECK-SAME: tile.outputs = 3 : i64
// CHECK-SAME: tile.threads = 256 : i64
// CHECK: "tile.part"() ({
// CHECK-NEXT: %[[P:.*]] = "tile.program_id"()
// CHECK-NEXT: %[[GRID:.*]] = arith.constant 2 : index
// CHECK-NEXT: %[[WHICH:.*]] = arith.divui %[[P]], %[[GRID]]
// CHECK-NEXT: %[[OWN:.*]] = arith.remui %[[P]], %[[GRID]]
// CHECK-NEXT: %[[CHOSEN:.*]]:2 = scf.index_switch %[[WHICH]]
// CHECK: case 0 {
// CHECK-NEXT: scf.yield %arg0, %arg3
// CHECK: default {
// CHECK-NEXT: scf.yield %arg1, %arg4
// CHECK: arith.muli %[[OWN]]
// CHECK: vector.transfer_read %[[CHOSEN]]#0
// CHECK: vector.transfer_write {{.*}} %[[CHOSEN]]#1
// CHECK: }) {{{.*}}tile.grid = 4 : i64{{.*}}tile.vec = 4 : i64}
// CHECK: "tile.part"() ({
// CHECK-NOT: scf.index_switch
// CHECK: vector.reduction
// CHECK: }) {{{.*}}tile.grid = 2 : i64{{.*}}tile.threads = 256 : i64{{.*}}}
// CHECK: return

// What is still launched by itself stays, what is not goes.
// CHECK-LABEL: func.func private @negate(
// CHECK-NOT: func.func private @sum(

// All threads of a CTA take the same way, so that the barrier may stand in it.
// GPU-LABEL: gpu.func @negate_x2_and_sum
// GPU-SAME: workgroup(%{{.*}} : memref<8xf32, #gpu.address_space<workgroup>>)
// GPU-SAME: gpu.grid = 4 : i64
// GPU: %[[B:.*]] = gpu.block_id x
// GPU-NEXT: %[[FIRST:.*]] = arith.cmpi ult, %[[B]], %c2{{.*}} : index
// GPU-NEXT: scf.if %[[FIRST]] {
// GPU: %[[BUFFERS:.*]]:2 = scf.index_switch
// GPU: vector.load %[[BUFFERS]]#0
// GPU: vector.store {{.*}} %[[BUFFERS]]#1
// GPU: } else {
// GPU: arith.subi %{{.*}}, %c2
// GPU: gpu.barrier
// GPU: gpu.return

#id = affine_map<(d0) -> (d0)>
"plan.program"() ({
  %x = "plan.input"() {index = 0 : i64} : () -> memref<1000xf32>
  %y = "plan.input"() {index = 1 : i64} : () -> memref<1000xf32>
  %z = "plan.input"() {index = 2 : i64} : () -> memref<2x601xf32>
  %a = "plan.output"() {index = 0 : i64} : () -> memref<1000xf32>
  "plan.launch"(%x, %a) {kernel = @negate, label = "negate", n_out = 1 : i64} : (memref<1000xf32>, memref<1000xf32>) -> ()
  %b = "plan.output"() {index = 1 : i64} : () -> memref<2xf32>
  "plan.launch"(%z, %b) {kernel = @sum, label = "sum", n_out = 1 : i64} : (memref<2x601xf32>, memref<2xf32>) -> ()
  %t = "plan.alloc"() {bytes = 4000 : i64, offset = 0 : i64} : () -> memref<1000xf32>
  "plan.launch"(%y, %t) {kernel = @negate, label = "negate_2", n_out = 1 : i64} : (memref<1000xf32>, memref<1000xf32>) -> ()
  %c = "plan.output"() {index = 2 : i64} : () -> memref<1000xf32>
  "plan.launch"(%t, %c) {kernel = @negate, label = "negate_3", n_out = 1 : i64} : (memref<1000xf32>, memref<1000xf32>) -> ()
  "plan.return"(%a, %b, %c) : (memref<1000xf32>, memref<2xf32>, memref<1000xf32>) -> ()
}) {sym_name = "main", arena_bytes = 4032 : i64, lower_bound = 4032 : i64, sum_bytes = 4000 : i64} : () -> ()

func.func private @negate(%x: tensor<1000xf32>) -> tensor<1000xf32> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<1000xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<1000xf32>) outs(%e : tensor<1000xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<1000xf32>
  return %r : tensor<1000xf32>
}
func.func private @sum(%x: tensor<2x601xf32>) -> tensor<2xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<2x601xf32>) outs(%f : tensor<2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<2xf32>
  return %r : tensor<2xf32>
}
