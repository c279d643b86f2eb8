//! What operators see and say.

use semel::inbox::{InboxAuditKind, InboxInspect, InboxStore, Mismatch};
use semel_testkit::servers::Major;

use super::desk::{consumer, delivery, message};

#[tokio::test]
async fn a_mismatch_is_in_the_audit_and_the_audit_within_its_bound() {
    let fixture = crate::fixture::Fixture::new(Major::V18).await;
    let store = fixture.builder().audit_max(3).open().await.unwrap();
    for number in 0..8 {
        let mismatch = Mismatch {
            consumer: consumer(),
            message: message(&format!("m{number}")),
            recorded: delivery("a").fingerprint(),
            came: delivery("b").fingerprint(),
        };
        store.report(mismatch).await.unwrap();
    }
    let audit = store.inbox_audit(None, 100).await.unwrap();
    let ids: Vec<_> = audit.iter().map(|row| row.message.id()).collect();
    assert_eq!(ids, ["m7", "m6", "m5"]);
    assert!(audit.iter().all(|row| row.kind == InboxAuditKind::Mismatch));
}
