func.func @f(%seed: i64) {
  // expected-error @+1 {{expects exactly 2 operands, but got 1}}
  %r = "random.bits"(%seed) : (i64) -> i32
  return
}
