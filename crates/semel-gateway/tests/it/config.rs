//! Every refusal of a configuration, with its place and its one sentence.

use std::{fs, path::Path, time::Duration};

use semel::decide::OnLost;
use semel_gateway::config::{Config, Files, Horizon, default_file, reference_page};

/// What every working file has.
pub(crate) const BASE: &str = r#"
replay_auth = "none"
[tenant]
source = "single_tenant"
[[upstream]]
name = "app"
url = "http://127.0.0.1:3000"
"#;

pub(crate) fn parse(text: &str) -> Result<Config, Vec<String>> {
    Config::parse(text, Path::new("semel.toml"), Path::new("/srv"), Files::Ignored)
        .map_err(|problems| problems.to_string().lines().map(str::to_owned).collect())
}

pub(crate) fn refused(text: &str) -> Vec<String> {
    parse(text).unwrap_err()
}

/// Checks that a file is refused with exactly these lines.
pub(crate) fn check(text: &str, lines: &[&str]) {
    assert_eq!(refused(text), lines, "{text}");
}

/// Checks that one operation added to a working file is refused with exactly these lines, whose
/// numbers count from the operation's own first line.
pub(crate) fn check_operation(settings: &str, lines: &[&str]) {
    let head = "[[operation]]\nname = \"payments.create\"\npath = \"/payments\"\n";
    let text = format!("{BASE}{head}{settings}");
    let first = BASE.lines().count();
    let counted: Vec<_> = refused(&text)
        .into_iter()
        .map(|line| {
            let rest = line.strip_prefix("semel.toml:").unwrap();
            let (number, rest) = rest.split_once(':').unwrap();
            format!("{}:{rest}", number.parse::<usize>().unwrap() - first)
        })
        .collect();
    assert_eq!(counted, lines, "{settings}");
}

#[test]
fn the_smallest_file_works_and_says_the_defaults() {
    let config = parse(BASE).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.in_flight.bytes(), 256 << 20);
    assert_eq!(config.route("/anything").unwrap().name, "app");
    let text = format!("{BASE}[[operation]]\nname = \"o\"\npath = \"/o\"\n");
    let operation = &parse(&text).unwrap().operation[0];
    assert_eq!(operation.policy(), semel::Policy::default());
    assert_eq!(operation.header.0, "idempotency-key");
    assert_eq!(operation.on_lost, OnLost::Hold);
    assert_eq!(operation.body_max.bytes(), 1 << 20);
}

#[test]
fn every_setting_is_read() {
    let text = format!(
        "{BASE}[[operation]]\nname = \"o\"\npath = \"/o/{{id}}\"\nmethod = \"PUT\"\nlease = \"5s\"\n\
         mismatch = \"new_intent\"\nhorizons = {{ queue = \"sqs\", client = \"1h30m\" }}\n\
         exclude = [\"/trace_id\"]\n"
    );
    let config = parse(&text).unwrap();
    let operation = &config.operation[0];
    assert_eq!(operation.lease, Duration::from_secs(5));
    let horizons = operation.horizons.as_ref().unwrap();
    assert_eq!(horizons.queue, Some(Horizon(Duration::from_secs(14 * 86_400))));
    assert_eq!(horizons.client, Some(Horizon(Duration::from_secs(5_400))));
}

#[test]
fn a_misspelt_setting_is_refused_with_the_nearest_name() {
    check(
        &format!("lisen = \"127.0.0.1:1\"\n{BASE}"),
        &["semel.toml:1:1: `lisen` is not a setting; did you mean `listen`?"],
    );
    check_operation(
        "leese = \"5s\"",
        &["4:1: `operation.leese` is not a setting; did you mean `lease`?"],
    );
    check_operation("qqq = 1", &["4:1: `operation.qqq` is not a setting"]);
}

#[test]
fn all_problems_are_told_at_once() {
    check_operation(
        "leese = \"5s\"\nreplay_for = \"long\"\nupstream = \"ap\"\nwait = \"1h\"\nlease = \"0\"",
        &[
            "4:1: `operation.leese` is not a setting; did you mean `lease`?",
            "5:14: `operation.replay_for` is \"long\"; it must be a duration with its unit, such as \
             \"10s\", \"5m\", \"24h\" or \"30d\"",
            "6:12: there is no upstream \"ap\"; did you mean \"app\"?",
            "7:8: `operation.wait` is 1h; it must lie between 0 and 10m",
            "8:9: `operation.lease` is 0; it must lie between 100ms and 1d",
        ],
    );
}

#[test]
fn what_is_not_toml_is_refused_with_its_place() {
    let lines = refused("listen = \n");
    assert!(lines[0].starts_with("semel.toml:1:"), "{lines:?}");
}

/// C43
#[test]
fn no_tenant_source_is_refused() {
    check(
        "replay_auth = \"none\"\n[[upstream]]\nname = \"app\"\nurl = \"http://127.0.0.1:3000\"\n",
        &["semel.toml:1:1: no tenant source: say whose keys they are by [tenant] source = \
           \"header\" or \"api_key\" with its `header`, or source = \"single_tenant\" if all callers \
           may share one space of keys"],
    );
}

#[test]
fn nobody_to_ask_before_a_replay_is_refused() {
    check(
        &BASE.replace("replay_auth = \"none\"", ""),
        &["semel.toml:1:1: nobody is asked before an answer from the store is sent, and a key is \
           not permission: set `url` in [replay_auth], or replay_auth = \"none\" if whoever reaches \
           the gateway as a tenant may see that tenant's answers"],
    );
}

#[test]
fn a_credential_as_the_tenant_needs_to_be_static() {
    let tenant = |settings: &str| BASE.replace("source = \"single_tenant\"", settings);
    check(
        &tenant("source = \"api_key\"\nheader = \"Authorization\""),
        &[
            "semel.toml:5:10: `tenant.header` is `authorization`: a refreshed credential would be a \
           new tenant and every key a new intent; say static_credentials = true if its value never \
           changes for a caller",
        ],
    );
    assert!(
        parse(&tenant(
            "source = \"api_key\"\nheader = \"Authorization\"\nstatic_credentials = true"
        ))
        .is_ok()
    );
    check(
        &tenant("source = \"header\""),
        &["semel.toml:3:2: `tenant.header` is not set: say which header carries the tenant"],
    );
    check(
        &tenant("source = \"hedder\"\nheader = \"x-tenant\""),
        &["semel.toml:4:10: `tenant.source` is \"hedder\"; it must be \"api_key\", \"header\" or \
           \"single_tenant\"; did you mean \"header\"?"],
    );
}

#[test]
fn an_unknown_upstream_is_refused() {
    check_operation(
        "upstream = \"billing\"",
        &["4:12: there is no upstream \"billing\"; there is \"app\""],
    );
    check(
        &format!("default_upstream = \"apq\"\n{BASE}"),
        &["semel.toml:1:20: there is no upstream \"apq\"; did you mean \"app\"?"],
    );
}

#[test]
fn no_upstream_is_refused() {
    check(
        "replay_auth = \"none\"\ntenant.source = \"single_tenant\"\n",
        &["semel.toml:1:1: no upstream: add [[upstream]] with a `name` and a `url`"],
    );
}

#[test]
fn a_retention_below_its_horizon_is_refused() {
    check_operation(
        "remember_for = \"7d\"\nhorizons.queue = \"sqs\"",
        &["4:16: `operation.remember_for` is 7d, shorter than the queue horizon of 14d: a retry \
           could still come when the operation \"payments.create\" is forgotten"],
    );
    check_operation(
        "remember_for = \"1h\"",
        &["4:16: `operation.remember_for` is 1h; it must lie between 1d and 36600d"],
    );
}

#[test]
fn money_without_settlement_is_refused() {
    check_operation(
        "money = true",
        &["1:1: the operation \"payments.create\" moves money (money = true) and declares no \
           settlement horizon: set `settlement` in [operation.horizons] to the longest time until a \
           payment is settled for good"],
    );
}

#[test]
fn a_lease_out_of_bounds_is_refused() {
    check_operation(
        "lease = \"10ms\"",
        &["4:9: `operation.lease` is 10ms; it must lie between 100ms and 1d"],
    );
}

#[test]
fn a_settling_time_below_the_upstreams_time_out_is_refused() {
    check_operation(
        "settle_for = \"10s\"",
        &[
            "4:14: `operation.settle_for` is 10s, shorter than the 1m for which the upstream \"app\" \
           may still be working (its `answer_wait`)",
        ],
    );
}

#[test]
fn two_operations_of_one_name_or_one_path_are_refused() {
    check_operation(
        "[[operation]]\nname = \"payments.create\"\npath = \"/other\"",
        &["5:8: two operations are named \"payments.create\""],
    );
    check_operation(
        "[[operation]]\nname = \"payments.again\"\npath = \"/payments\"\nmethod = \"POST\"",
        &[
            "6:8: POST /payments of \"payments.again\" matches paths that /payments of \"payments.create\" \
           matches too, and neither is more exact",
        ],
    );
    check_operation(
        "[[operation]]\nname = \"a\"\npath = \"/p/{id}\"\nmethod = \"PUT\"\n\
         [[operation]]\nname = \"b\"\npath = \"/p/{name}\"\nmethod = [\"PUT\"]",
        &[
            "10:8: PUT /p/{name} of \"b\" matches paths that /p/{id} of \"a\" matches too, and neither is \
           more exact",
        ],
    );
}

#[test]
fn a_path_that_is_no_template_is_refused() {
    check_operation(
        "[[operation]]\nname = \"a\"\npath = \"/p/:id\"",
        &[
            "6:8: the path \"/p/:id\" names a segment in another router's way: write `{name}` for one segment \
           and `{*rest}` for all that follow",
        ],
    );
}

#[test]
fn a_missing_setting_is_refused() {
    check(
        &format!("{BASE}[[operation]]\nname = \"a\"\n"),
        &["semel.toml:8:1: `path` is not set in `operation`: it has no default"],
    );
}

#[test]
fn a_fingerprint_that_cannot_be_made_is_refused() {
    check_operation(
        "exclude = [\"trace\"]",
        &[
            "4:11: `operation.exclude` cannot be used: \"trace\" is not a JSON Pointer: it starts with \
           a slash, and a tilde stands only in ~0 and ~1",
        ],
    );
    let lines = refused(&format!(
        "{BASE}[[operation]]\nname = \"a\"\npath = \"/a\"\ninclude_headers = [\"Authorization\"]\n"
    ));
    assert!(lines[0].contains("`operation.include_headers` cannot be used"), "{lines:?}");
}

#[test]
fn a_secret_in_the_file_is_refused_and_never_shown() {
    check_operation(
        "secret = \"hunter2hunter2hunter2\"",
        &[
            "4:10: `operation.secret` is a secret and stays out of this file: write { env = \"NAME\" } \
           or { file = \"PATH\" }",
        ],
    );
    check_operation(
        "secret = { env = \"SEMEL_TEST_NOT_SET\" }",
        &[
            "4:10: `operation.secret` cannot be read: the environment variable SEMEL_TEST_NOT_SET is \
           not set",
        ],
    );
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("key"), "hunter2hunter2hunter2\n").unwrap();
    let text = format!(
        "{BASE}[[operation]]\nname = \"a\"\npath = \"/a\"\nsecret = {{ file = \"key\" }}\n"
    );
    let config = Config::parse(&text, Path::new("f"), folder.path(), Files::Ignored).unwrap();
    let secret = config.operation[0].secret.as_ref().unwrap();
    assert_eq!(secret.expose(), b"hunter2hunter2hunter2");
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn a_store_that_forgets_is_refused_for_a_durable_operation() {
    let text = format!("store = \"memory:\"\n{BASE}[[operation]]\nname = \"a\"\npath = \"/a\"\n");
    check(
        &text,
        &["semel.toml:9:1: the operation \"a\" must be durable, and the store `memory:` forgets \
           everything at the end of the process; use sqlite:PATH, or say durable = false"],
    );
    assert!(parse(&format!("{text}durable = false\n")).is_ok());
    check(
        &format!("store = \"mysql://x\"\n{BASE}"),
        &["semel.toml:1:9: `store` is \"mysql://x\"; it must be \"sqlite:PATH\", \
           \"postgres://USER@HOST/DATABASE\", \"redis://HOST\", \"rediss://HOST\" or \"memory:\"; a \
           relative path starts at the folder of this file"],
    );
}

#[test]
fn files_that_cannot_be_used_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("empty.pem"), "").unwrap();
    let text = format!(
        "store = \"sqlite:missing/semel.db\"\n\
         tls = {{ certificate = \"none.pem\", key = \"empty.pem\" }}\n{BASE}"
    );
    let problems =
        Config::parse(&text, Path::new("semel.toml"), folder.path(), Files::Checked).unwrap_err();
    let shown = problems.to_string().replace(folder.path().to_str().unwrap(), "FOLDER");
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(
        lines,
        [
            "semel.toml:1:9: the store FOLDER/missing/semel.db cannot be written: the folder \
             FOLDER/missing does not exist",
            "semel.toml:2:23: FOLDER/none.pem cannot be read: No such file or directory (os error 2)",
            "semel.toml:2:41: FOLDER/empty.pem holds no private key in PEM: no items found",
        ]
    );
}

#[test]
fn requests_that_match_no_operation_go_by_prefix_then_to_the_default() {
    let text = format!(
        "default_upstream = \"app\"\n{BASE}[[upstream]]\nname = \"billing\"\n\
         url = \"http://127.0.0.1:3001\"\nprefixes = [\"/billing\", \"/billing/v2/\"]\n"
    );
    let config = parse(&text).unwrap();
    for (path, upstream) in
        [("/", "app"), ("/billing", "billing"), ("/billing/x", "billing"), ("/billings", "app")]
    {
        assert_eq!(config.route(path).unwrap().name, upstream, "{path}");
    }
}

#[test]
fn a_wait_of_nothing_is_refused() {
    check(
        &BASE.replace("[tenant]", "limits.head_wait = \"0\"\nlimits.head = \"1 B\"\n[tenant]"),
        &[
            "semel.toml:3:20: `limits.head_wait` is 0; it must lie between 10ms and 1d",
            "semel.toml:4:15: `limits.head` is 1 B; it must lie between 4 KiB and 16 MiB",
        ],
    );
    check(
        &format!("{BASE}answer_wait = \"0\"\nconnections = 0\n"),
        &[
            "semel.toml:8:15: `upstream.answer_wait` is 0; it must lie between 10ms and 1d",
            "semel.toml:9:15: `upstream.connections` is 0; it must lie between 1 and 1000000",
        ],
    );
}

/// A slip that would leave an operation unprotected, silently.
#[test]
fn a_method_or_a_path_that_no_request_has_is_refused() {
    check_operation(
        "method = \"POTS\"",
        &["4:10: `operation.method` is \"POTS\"; it must be a registered method; did you mean \
           \"POST\"?"],
    );
    check_operation(
        "method = [\"POST\", \"QQQ\"]",
        &["4:19: `operation.method` is \"QQQ\"; it must be a registered method"],
    );
    let operation = |path: &str| format!("{BASE}[[operation]]\nname = \"o\"\npath = \"{path}\"\n");
    for path in ["/./pay", "/a/../pay", "/pay/..", "/.semel", "/.semel/intents/{o}"] {
        let lines = refused(&operation(path));
        let says = lines.len() == 1 && lines[0].contains("so the operation would protect nothing");
        assert!(says && lines[0].starts_with("semel.toml:10:8: "), "{lines:?}");
    }
    for path in ["/", "/pay/", "/.semels", "/.well-known/x", "/a..b"] {
        parse(&operation(path)).unwrap();
    }
    for method in ["\"PROPPATCH\"", "[\"PUT\", \"VERSION-CONTROL\"]"] {
        parse(&format!("{}method = {method}\n", operation("/o"))).unwrap();
    }
}

#[test]
fn an_upstream_that_is_the_gateway_itself_is_refused() {
    let with = |listen: &str, url: &str| {
        let base = BASE.replace("http://127.0.0.1:3000", url);
        parse(&format!("listen = \"{listen}\"\n{base}"))
    };
    for (listen, url) in [
        ("127.0.0.1:3000", "http://127.0.0.1:3000/v1"),
        ("127.0.0.1:3000", "http://localhost:3000"),
        ("0.0.0.0:80", "http://127.0.0.1"),
        ("[::1]:443", "https://[::1]"),
    ] {
        let lines = with(listen, url).unwrap_err();
        let says = format!(
            "semel.toml:8:7: the upstream \"app\" is the gateway itself: `listen` is {listen}"
        );
        assert_eq!(lines, [says]);
    }
    for (listen, url) in [
        ("127.0.0.1:3000", "http://127.0.0.1:3001"),
        ("127.0.0.1:3000", "http://127.0.0.2:3000"),
        ("127.0.0.1:3000", "http://api.example.com:3000"),
        ("127.0.0.1:0", "http://127.0.0.1:80"),
    ] {
        with(listen, url).unwrap();
    }
}

#[test]
fn a_replay_longer_than_the_memory_by_default_names_what_was_written() {
    check_operation(
        "replay_for = \"40d\"",
        &[
            "4:14: `operation.replay_for` is 40d, longer than `remember_for`, which is 30d by default; \
           raise `remember_for` too",
        ],
    );
}

#[test]
fn a_value_of_the_wrong_kind_is_refused_with_what_it_must_be() {
    for (setting, says) in [
        ("listen = 8080", "`listen` is 8080; it must be an address and a port, such as"),
        ("waiters = \"many\"", "`waiters` is \"many\"; it must be a whole number"),
        ("in_flight = 1024", "`in_flight` is 1024; it must be a size with its unit, such as"),
        ("operation = { name = \"a\" }", "`operation` is a list of tables: write [[operation]]"),
        ("tls = true", "`tls` is a table: write [tls] and its settings below it"),
        ("forwarded = \"apend\"", "did you mean \"append\"?"),
    ] {
        let lines = refused(&format!("{setting}\n{BASE}"));
        assert!(lines.len() == 1 && lines[0].contains(says), "{lines:?}");
    }
}

#[test]
fn a_bearer_token_never_names_a_tenant() {
    let text = BASE.replace(
        "source = \"single_tenant\"",
        "source = \"api_key\"\nheader = \"authorization\"\nstatic_credentials = true",
    );
    let tenant = parse(&text).unwrap().gateway().tenant;
    let asks = |value: &str| {
        let request = http::Request::get("/").header("authorization", value).body(()).unwrap();
        tenant.tenant(&request.into_parts().0)
    };
    assert!(asks("Basic YWRhOmNhcHM=").is_ok());
    assert!(asks("bEaReR abc").is_err());
}

#[test]
fn no_text_makes_the_reader_panic() {
    let full = default_file();
    for text in [BASE, &full] {
        let cuts = (0..text.len()).filter(|at| text.is_char_boundary(*at));
        for at in cuts.step_by(if text.len() > 1_000 { 37 } else { 1 }) {
            for put in ["", "\"", "[", "{", "\n[[operation]]\n", "1e999", "é"] {
                let _problems = parse(&format!("{}{put}{}", &text[..at], &text[at..]));
            }
            let _problems = parse(&text[..at]);
        }
    }
}

#[test]
fn the_default_file_lacks_only_what_has_no_default() {
    let lines = refused(&default_file());
    let without: Vec<_> = lines.iter().filter(|line| !line.contains("it has no default")).collect();
    assert!(without.is_empty(), "{without:?}");
    assert_eq!(lines.len(), 9, "{lines:?}");
}

#[test]
fn the_default_file_and_the_reference_page_are_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (file, made) in [
        (root.join("config.default.toml"), default_file()),
        (root.join("../../docs/reference/configuration.md"), reference_page()),
    ] {
        let kept = fs::read_to_string(&file).unwrap_or_default();
        let shown = file.display();
        assert!(kept == made, "{shown} is not what `semel reference` writes; write it again");
    }
}
