//! What a configuration says of its store, and of operations that are bridged to it.

use std::{fs, path::Path};

use semel_gateway::config::{Config, Files};

use crate::config::{BASE, check, check_operation, parse, refused};

#[test]
fn a_password_stays_out_of_the_file_and_out_of_every_message() {
    let kept = |text: &str| parse(&format!("{text}\n{BASE}")).unwrap().stored();
    let stored = kept("store = \"postgres://app@db/shop\"\npostgres = { schema = \"s1\" }");
    assert_eq!(
        (stored.url.to_string(), &*stored.postgres.schema),
        ("postgres://app@db/shop".into(), "s1")
    );
    for bad in ["postgres://app:hunter2@db/shop", "postgres://db/shop?password=hunter2"] {
        let lines = refused(&format!("store = \"{bad}\"\n{BASE}"));
        assert!(
            lines[0].contains("holds a password") && !lines[0].contains("hunter2"),
            "{lines:?}"
        );
    }
    for bad in ["postgers://app:hunter2@db/shop", "host=db password=hunter2"] {
        let lines = refused(&format!("store = \"{bad}\"\n{BASE}"));
        assert!(lines[0].contains("is no store") && !lines[0].contains("hunter2"), "{lines:?}");
    }

    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("url"), "postgres://app:hunter2@db/shop\n").unwrap();
    fs::write(folder.path().join("bad"), "hunter2").unwrap();
    let read = |text: &str| {
        let text = format!("{text}\n{BASE}");
        Config::parse(&text, Path::new("f"), folder.path(), Files::Ignored)
    };
    let config = read("store = { file = \"url\" }").unwrap();
    assert_eq!(config.store.to_string(), "postgres://app@db/shop");
    assert!(!format!("{config:?}").contains("hunter2"));
    let problems = read("store = { file = \"bad\" }").unwrap_err().to_string();
    assert!(problems.contains("is no store") && !problems.contains("hunter2"), "{problems}");
    let both = "store = { file = \"url\" }\npostgres = { password = { file = \"bad\" } }";
    assert!(read(both).unwrap_err().to_string().contains("both say a password"));
}

#[test]
fn a_store_in_redis_is_read_and_its_secrets_stay_out_of_sight() {
    let kept = |text: &str| parse(&format!("{text}\n{BASE}")).unwrap().stored();
    let stored = kept(
        "store = \"rediss://app@a,b/0?sentinel=main\"\n\
         redis = { prefix = \"shop\", wait_replicas = 1, wait_for = \"3s\", stated = \"durable\" }",
    );
    assert_eq!(stored.url.to_string(), "rediss://a,b");
    assert_eq!((&*stored.redis.prefix, stored.redis.wait_replicas), ("shop", 1));
    for bad in ["redis://:hunter2@cache", "redis://a?sentinel=m&sentinel_password=hunter2"] {
        let lines = refused(&format!("store = \"{bad}\"\n{BASE}"));
        assert!(
            lines[0].contains("holds a password") && !lines[0].contains("hunter2"),
            "{lines:?}"
        );
    }
    for (bad, says) in [
        ("redis = { prefix = \"x\" }", "[redis] has no meaning"),
        ("store = \"redis://h\"\npostgres = { schema = \"x\" }", "[postgres] has no meaning"),
        ("store = \"redis://h\"\nredis = { wait_for = \"0s\" }", "no replica would ever"),
        ("store = \"rediss://h\"\nredis = { client_key = \"k\" }", "are said together"),
        ("store = \"redis://h\"\nredis = { stated = \"maybe\" }", "durable"),
    ] {
        let lines = refused(&format!("{bad}\n{BASE}"));
        assert!(lines.iter().any(|line| line.contains(says)), "{lines:?}");
    }
}

/// The password of the sentinels is another than that of the user; of the latter only one is said.
#[test]
fn a_password_for_the_sentinels_leaves_room_for_that_of_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "store = {{ file = \"url\" }}\nredis = {{ password = {{ file = \"own\" }} }}\n{BASE}"
    );
    fs::write(folder.path().join("own"), "hunter2").unwrap();
    for (url, is_one) in [
        ("redis://app@a?sentinel=m&sentinel_password=hunter3", true),
        ("redis://app:hunter3@a?sentinel=m", false),
    ] {
        fs::write(folder.path().join("url"), url).unwrap();
        let read = Config::parse(&text, Path::new("f"), folder.path(), Files::Ignored);
        assert_eq!(read.is_ok(), is_one, "{url}: {read:?}");
        assert!(!format!("{read:?}").contains("hunter"), "{url}");
    }
}

/// A URL that cannot be understood is found before a server is asked, and is not repeated.
#[test]
fn a_url_that_cannot_be_understood_is_found_by_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let checked = |text: &str| {
        let text = format!("{text}\n{BASE}");
        let read = Config::parse(&text, Path::new("f"), folder.path(), Files::Checked);
        read.map(drop).map_err(|problems| problems.to_string())
    };
    assert_eq!(checked("store = \"postgres://app@db-1,db-2:5433/shop?sslmode=require\""), Ok(()));
    for (bad, words) in [
        ("store = \"postgres://db:x/shop\"", "cannot be understood"),
        ("store = \"redis://db:x\"", "NAME:PORT"),
        ("store = \"redis://db?cluster=yes\"", "cluster=true"),
        ("store = \"valkey://db\"\nredis = { ca = \"none.pem\" }", "must begin with rediss://"),
        ("store = \"valkeys://db\"\nredis = { ca = \"none.pem\" }", "none.pem cannot be read"),
        ("store = \"redis://db\"\nredis = { prefix = \"a{b\" }", "the prefix of the keys"),
        ("store = \"postgres://db/shop?sslmode=verify-ca\"", "sslmode must be"),
        ("store = \"postgres://db/shop\"\npostgres = { schema = \"Shop\" }", "lower-case letters"),
        ("store = \"postgres://db/shop\"\npostgres = { ca = \"none.pem\" }", "cannot be read"),
    ] {
        let problems = checked(bad).unwrap_err();
        assert!(problems.contains(words) && problems.lines().count() == 1, "{problems}");
    }
}

#[test]
fn settings_of_a_store_that_is_not_used_are_refused() {
    check(
        &format!("postgres = {{ schema = \"s1\" }}\n{BASE}"),
        &["semel.toml:1:1: [postgres] has no meaning: the store is sqlite:/srv/semel.db"],
    );
    check(
        &format!("store = \"postgres://h/d\"\npostgres = {{ connections = 0 }}\n{BASE}"),
        &["semel.toml:2:28: `postgres.connections` is 0; it must lie between 1 and 1000000"],
    );
}

#[test]
fn a_bridge_that_leads_nowhere_is_refused() {
    check_operation(
        "bridged = true\n",
        &[
            "4:11: the operation \"payments.create\" is bridged, and the store sqlite:/srv/semel.db is \
             not the application's own database; use postgres://USER@HOST/DATABASE",
            "4:11: the operation \"payments.create\" is bridged, and its upstream \"app\" is sent no \
             permits; say bridged = true there too, if it completes them in the store's own database",
        ],
    );
    let file = |settings: &str| {
        let upstream = BASE.replace("name = \"app\"", "name = \"app\"\nbridged = true");
        format!(
            "store = \"postgres://h/d\"\n{upstream}[[operation]]\nname = \"a\"\npath = \"/a\"\n\
             bridged = true\n{settings}"
        )
    };
    let config = parse(&file("on_lost = \"rerun\"\n")).unwrap();
    assert!(config.gateway().operations[0].operation.is_bridged());
    check(
        &file("keep = \"definite\"\nstore_away = \"open\"\n"),
        &[
            "semel.toml:14:8: `operation.keep` has no meaning with bridged = true",
            "semel.toml:15:14: operation a: a bridged operation never runs without a permit",
        ],
    );
}
