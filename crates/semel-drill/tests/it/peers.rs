//! The plans of the published packages that `cargo xtask drill-peers` drills.

use std::path::Path;

use semel_drill::plan::Plan;

#[test]
fn every_plan_of_a_published_package_can_be_used() {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    let mut read = 0;
    for entry in std::fs::read_dir(peers).unwrap() {
        let plan = entry.unwrap().path().join("plan.toml");
        if plan.is_file() {
            let text = std::fs::read_to_string(&plan).unwrap();
            let plan = Plan::parse(&text).unwrap_or_else(|why| panic!("{}: {why}", plan.display()));
            assert!(plan.process.is_some(), "{} kills nothing", plan.name);
            read += 1;
        }
    }
    assert!(read >= 6, "{read} plans");
}
