func.func @above() {
  // expected-error @below {{'func.call' op 'g' does not reference a valid function}}
  func.call @g() : () -> ()
  return
}
// -----
func.func @above() {
  func.call @g() : () -> () // expected-error {{valid function}}
  return
}
// -----
func.func @above() {
  func.call @g() : () -> ()
  // expected-error @above {{valid function}}
  return
}
// -----
// expected-error-re @+2 {{op '{{[a-z]}}' does not {{.*}} valid}}
func.func @above() {
  func.call @g() : () -> ()
  return
}
// -----
// expected-error @unknown {{valid function}}
func.func @elsewhere() {
  func.call @g() : () -> () loc("model.py":3:4)
  return
}
// -----
func.func @note(%a: i32) {
  // expected-note @below {{prior use here}}
  %0 = arith.addi %a, %a : i32
  // expected-error @+1 {{use of value '%0' expects different type than prior uses: 'i64' vs 'i32'}}
  %1 = arith.addi %0, %0 : i64
  return
}
