//! Published vectors, and what is refused.

use sha2::{Digest, Sha256};

use super::*;

fn canonical(text: impl AsRef<[u8]>) -> Result<String, FingerprintError> {
    let text = canonical_json(text.as_ref(), &Limits::new())?;
    Ok(String::from_utf8(text).unwrap())
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[track_caller]
fn check(text: &str, want: &str) {
    assert_eq!(canonical(text).as_deref(), Ok(want), "of {text}");
    assert_eq!(canonical(want).as_deref(), Ok(want), "its own canonical form");
}

#[track_caller]
fn refused(text: impl AsRef<[u8]>, want: FingerprintError) {
    let shown = String::from_utf8_lossy(text.as_ref()).chars().take(60).collect::<String>();
    assert_eq!(canonical(text), Err(want), "of {shown}");
}

#[test]
fn published_texts_have_their_published_digest() {
    let vectors = [
        // The six texts of the reference implementation; `values` without the decimal that RFC 8785 rounds.
        (
            r#"[56.0,{"d":true ,"10":null,"1":[ ]}]"#,
            "099601b171cafed97c333f8878d68e7f8c8f795412adb34b2fdcf0e7c7beac42",
        ),
        (
            r#"{"sin":"ignore locale","pêche":"but canonicalization MUST","peach":"This sorting order","péché":"is wrong according to French"}"#,
            "d99d0ebdcb0033cb858cfa830ae46bc0fb3309413b271f1da828c89901a27ed5",
        ),
        (
            r#"{"A":{},"a":{},"1":{"f":{"f":"hi","F":5},"\u000a":56.0},"111":[{"e":"yes","E":"no"}],"10":{},"":"empty"}"#,
            "605f65004ec2db7692522a0852c22f1c989e036d547e88963d1a3143cf3195d5",
        ),
        (
            r#"{"Unnormalized Unicode":"A\u030a"}"#,
            "0d99aad92a125196ff887876643fd3206786a84ddce2cee52ba4ad256d2381d3",
        ),
        (
            r#"{"numbers":[333333333.3333333,1E30,4.50,2e-3,0.000000000000000000000000001],"literals":[null,true,false],"string":"€$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"}"#,
            "2d5e01a318d0f0879ab568c4be289c8b1f64ef8921a53c6277d5e069978baacb",
        ),
        (
            r#"{"€":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude02":"Smiley","\u0080":"Control\u007f","ö":"Latin Small Letter O With Diaeresis","\n":"Newline","<\/script>":"Browser Challenge"}"#,
            "6af595a9aa80110b964b4de3f82a05fa6ae7423005019bacfa2620dddc4e94d1",
        ),
        // One trap each.
        (r#"{"b":2,"a":1}"#, "43258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777"),
        (r#"{"amount":10.0}"#, "a8b88b82fe90a16048eb8851fe382405395cd395dafaa7ca9be90ec00f82a72b"),
        (r#"{"amount":1e2}"#, "4d4bbe59c6aad22442cde199a6a8a5f034405fcd78fb5a81c24ef249de1c45f1"),
        (r#"{"amount":-0}"#, "e6a312b1d452aa705e11d045f19ba9f7097fbbc3a7ef956573c98e6d81203b6a"),
        (r#"{"s":"\u00e9"}"#, "86028b41ba792eaf82aa26a45b218f6734f7f1096a86f1746c8296e088a0ccb4"),
        (r#"{"s":"e\u0301"}"#, "1fc0bd7cc93fca8092a2041d7d01842876422aa7e2838acf42c14578e9f2be05"),
        (r#"{"s":"\/"}"#, "3a21357b943ab7956f071b0904981aac17577986281af33468108795e079946d"),
        (
            r#"{"\ue000":1,"\ud83d\ude02":2}"#,
            "1dac51cd0958bd41b0e1ab9471e306ec77a7c9425501d2163b84a0a7c174d872",
        ),
        (r#"{"a":null}"#, "d091f9c83c091f79652fe8786375b3fe4ce0861a56f5bfbafedbe431877ff0e8"),
        (r"{ }", "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"),
    ];
    for (text, digest) in vectors {
        let canonical = canonical(text).unwrap();
        assert_eq!(sha256(&canonical), digest, "of {canonical}");
    }
}

#[test]
fn numbers_that_rfc_8785_runs_together_stay_apart() {
    let rounded = "a2102c7fa09a83bf190218094fc70210b6ae22b18f2669457afe43fd8d00f107";
    assert_eq!(sha256(r#"{"amount":9007199254740992}"#), rounded, "what RFC 8785 makes of both");
    check(r#"{"amount":9007199254740993}"#, r#"{"amount":9007199254740993}"#);
    check(r#"{"amount":9007199254740992}"#, r#"{"amount":9007199254740992}"#);
    // Left what is sent and kept, right what RFC 8785 makes of it.
    for (kept, rounded) in [
        ("333333333.33333329", "333333333.3333333"),
        ("295147905179352825856", "295147905179352830000"),
        ("0.1000000000000000055511151231257827", "0.1"),
        ("18446744073709551615", "18446744073709552000"),
        ("1e-400", "0"),
        ("-1e-400", "0"),
        ("2e-324", "0"),
        ("4.9e-324", "5e-324"),
    ] {
        check(kept, kept);
        check(rounded, rounded);
    }
    // RFC 8785 has no text for these.
    check("1E400", "1e+400");
    check("1e999999999", "1e+999999999");
    check("-123.450e-999999999", "-1.2345e-999999997");
}

#[test]
fn numbers_are_laid_out_as_rfc_8785_does() {
    for text in [
        "5e-324",
        "1.7976931348623157e+308",
        "9007199254740992",
        "295147905179352830000",
        "9.999999999999997e+22",
        "1e+23",
        "1.0000000000000001e+23",
        "999999999999999700000",
        "999999999999999900000",
        "1e+21",
        "9.999999999999997e-7",
        "0.000001",
        "333333333.3333332",
        "333333333.33333325",
        "333333333.3333333",
        "333333333.3333334",
        "333333333.33333343",
        "-0.0000033333333333333333",
        "1424953923781206.2",
    ] {
        check(text, text);
    }
}

#[test]
fn every_spelling_of_a_number_has_one_form() {
    for (want, spellings) in [
        ("0", "0 -0 0.0 -0.000 0e0 0e-5 -0E+999999999999999999999999 0.0e99"),
        ("1", "1 1.0 1e0 1E+0 1e-0 10e-1 0.1e1 1.000000000000000000000000000000 0.00001e5"),
        ("-1.5", "-1.5 -15e-1 -0.15E1 -1.50 -150e-0002"),
        ("100000000000000000000", "1e20 100000000000000000000 100000000000000000000.000 10E19"),
        ("1e+21", "1e21 1000000000000000000000 0.001e24 1000000000000000000000.0"),
        ("1.5e+22", "15000000000000000000000 1.5e22"),
        ("1.234567890123456789012e+21", "1234567890123456789012 1234567890123456789012e0"),
        ("0.000001", "0.000001 1e-6 0.1e-5 1000e-9"),
        ("1e-7", "0.0000001 1e-7 10e-8"),
        ("1.2e-7", "0.00000012 12e-8"),
        ("120.034", "120.034 120.0340 0.120034e3 120034e-3"),
    ] {
        let want = if want.len() > 21 && !want.contains('e') {
            "1.234567890123456789012e+21"
        } else {
            want
        };
        for spelling in spellings.split(' ') {
            check(spelling, want);
        }
    }
}

#[test]
fn number_bounds_look_at_the_value_and_not_its_spelling() {
    let zeros = "0".repeat(5_000);
    check(&format!("1{zeros}"), "1e+5000");
    check(&format!("1.{zeros}"), "1");
    check(&format!("0.{zeros}1e5001"), "1");
    check(&format!("1e{zeros}3"), "1000");
    let long = "7".repeat(1_001);
    refused(&long, FingerprintError::NumberTooLong { at: 0, limit: 1_000 });
    refused(format!("[0.{long}]"), FingerprintError::NumberTooLong { at: 1, limit: 1_000 });
    let exponent = |at| FingerprintError::NumberExponent { at, limit: 9 };
    refused("1e1000000000", exponent(0));
    refused("[1,10e999999999]", exponent(3));
    refused("1e-1000000000", exponent(0));
    refused(format!("1e{}", "9".repeat(100_000)), exponent(0));
    check("0.1e1000000000", "1e+999999999");
}

#[test]
fn strings_are_compared_after_unescaping() {
    check(r#""\u0041\u00e9\/\ud83d\ude02""#, "\"Aé/😂\"");
    check(r#""\u0022\u005c\u0008\u0009\u000a\u000c\u000D""#, r#""\"\\\b\t\n\f\r""#);
    check(r#""\u0000\u001F\u007f\u2028""#, "\"\\u0000\\u001f\u{7f}\u{2028}\"");
    assert_ne!(canonical("\"\u{e9}\""), canonical("\"e\u{301}\""));
    assert_ne!(canonical("\"\u{fb01}\""), canonical("\"fi\""));
}

#[test]
fn types_and_absence_stay_apart() {
    let texts =
        ["10", r#""10""#, "[10]", "{}", "[]", "null", "false", r#""""#, "0", r#"{"a":null}"#];
    for (nth, one) in texts.iter().enumerate() {
        for other in &texts[nth + 1..] {
            assert_ne!(canonical(one), canonical(other), "{one} and {other}");
        }
    }
    assert_ne!(canonical(r#"["a","b"]"#), canonical(r#"["b","a"]"#));
}

#[test]
fn members_move_together_with_what_they_hold() {
    check(
        r#" { "b" : [ { "d":1 , "c":{ "f":2, "e":3 } } , 4 ] , "a" : { "h" : 5 , "g" : 6 } } "#,
        r#"{"a":{"g":6,"h":5},"b":[{"c":{"e":3,"f":2},"d":1},4]}"#,
    );
    check(r#"{"\u0062":1,"a":[],"aa":{}}"#, r#"{"a":[],"aa":{},"b":1}"#);
}

#[test]
fn duplicate_members_are_refused_however_they_are_spelled() {
    for text in [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"b":2,"\u0061":1}"#,
        r#"{"":1,"b":2,"":1}"#,
        r#"{"\u000a":1,"\n":2}"#,
        r#"{"z":1,"long name number one":2,"a":0,"long name number one":3}"#,
    ] {
        refused(text, FingerprintError::DuplicateMember { at: text.len() - 1 });
    }
    check(r#"[{"a":1},{"a":1}]"#, r#"[{"a":1},{"a":1}]"#);
    check(r#"{"a":{"a":1}}"#, r#"{"a":{"a":1}}"#);
}

#[test]
fn nesting_is_bounded_without_recursion() {
    let nested = |open: &str, close: &str, depth| open.repeat(depth) + "1" + &close.repeat(depth);
    assert!(canonical(nested("[", "]", 128)).is_ok());
    refused(nested("[", "]", 129), FingerprintError::TooDeep { at: 128, limit: 128 });
    refused("[".repeat(100_000), FingerprintError::TooDeep { at: 128, limit: 128 });
    refused(r#"{"a":"#.repeat(100_000), FingerprintError::TooDeep { at: 640, limit: 128 });
    let deepest = Limits::new().depth(u16::MAX);
    let text = nested(r#"{"b":0,"a":"#, "}", 1_024);
    assert!(canonical_json(text.as_bytes(), &deepest).is_ok());
    let text = nested("[", "]", 1_025);
    let too_deep = FingerprintError::TooDeep { at: 1_024, limit: 1_024 };
    assert_eq!(canonical_json(text.as_bytes(), &deepest), Err(too_deep));
}

#[test]
fn members_are_bounded_over_the_whole_text() {
    let limits = Limits::new().members(4);
    assert!(canonical_json(br#"[{"a":1,"b":2},{"a":1,"b":2}]"#, &limits).is_ok());
    let over = canonical_json(br#"[{"a":1,"b":2},{"a":1,"b":2,"c":3}]"#, &limits);
    assert_eq!(over, Err(FingerprintError::TooManyMembers { limit: 4 }));
}

#[test]
fn characters_that_are_none_are_refused() {
    refused("\u{feff}{}", FingerprintError::ByteOrderMark);
    refused(b"\"a\xff\"", FingerprintError::InvalidUtf8 { at: 2 });
    refused(b"\"\xed\xa0\x80\"", FingerprintError::InvalidUtf8 { at: 1 });
    for (text, at) in [
        (r#""\ud800""#, 1),
        (r#""a\udc00""#, 2),
        (r#""\ud800\n""#, 1),
        (r#""\ud800\ud800""#, 1),
        (r#"{"\udbffx":1}"#, 2),
    ] {
        refused(text, FingerprintError::LoneSurrogate { at });
    }
}

#[test]
fn malformed_texts_are_refused_where_they_break() {
    for (text, at) in [
        ("", 0),
        (" ", 1),
        ("nul", 0),
        ("True", 0),
        ("NaN", 0),
        ("Infinity", 0),
        ("-", 1),
        ("+1", 0),
        (".5", 0),
        ("1.", 2),
        ("1.e5", 2),
        ("1e", 2),
        ("1e+", 3),
        ("01", 1),
        ("-01", 2),
        ("00", 1),
        ("1 2", 2),
        ("{}x", 2),
        ("{} {}", 3),
        ("nullnull", 4),
        ("1a", 1),
        ("0x1", 1),
        ("[", 1),
        ("[1", 2),
        ("[1,", 3),
        ("[1,]", 3),
        ("[,1]", 1),
        ("[1 2]", 3),
        ("[1}", 2),
        ("{", 1),
        ("{1:2}", 1),
        ("{a:1}", 1),
        (r#"{"a"}"#, 4),
        (r#"{"a" 1}"#, 5),
        (r#"{"a":}"#, 5),
        (r#"{"a":1"#, 6),
        (r#"{"a":1,}"#, 7),
        (r#"{"a":1]"#, 6),
        (r#"{"a":1 "b":2}"#, 7),
        (r#"{,"a":1}"#, 1),
        ("]", 0),
        ("\"a", 2),
        ("\"a\nb\"", 2),
        ("\"\u{0}\"", 1),
        ("\"\\", 1),
        (r#""\x""#, 1),
        (r#""\u12""#, 1),
        (r#""\u12g4""#, 1),
        (r#""\u+123""#, 1),
        (r#""\ud800\u12""#, 7),
        ("'a'", 0),
        ("/**/1", 0),
        ("\u{a0}1", 0),
        ("\u{b}1", 0),
    ] {
        match canonical(text) {
            Err(FingerprintError::Malformed { at: found, .. }) => {
                assert_eq!(found, at, "of {text}")
            }
            other => panic!("{text:?} gave {other:?}"),
        }
    }
}

#[test]
fn a_private_marker_of_a_parser_is_an_ordinary_object() {
    let text = r#"{"$serde_json::private::Number":"7"}"#;
    check(text, text);
}
