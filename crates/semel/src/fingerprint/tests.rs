//! The promises of the whole room.

use super::*;

#[test]
fn members_in_another_order_are_the_same_command() {
    let one = Fingerprint::of_json(br#"{"a":1,"b":2}"#).unwrap();
    assert_eq!(one, Fingerprint::of_json(b" {\"b\" : 2.0 , \"a\":1e0}\n").unwrap());
    assert_ne!(one, Fingerprint::of_json(br#"{"a":1,"b":3}"#).unwrap());
}

#[test]
fn a_fingerprint_reads_back_from_its_text() {
    let one = Fingerprint::of_bytes(b"x");
    assert_eq!(one.to_string().parse(), Ok(one));
    assert_eq!(one.plan().to_string().parse(), Ok(one.plan()));
}
