//! What must hold between the settings that say how something is counted.

use super::{
    super::{reading::Reading, spec::EffectsSpec, template},
    BEFORE, headers, is_url, local_path, pointer, templates,
};

/// What is counted, and where the plan says how.
#[derive(Debug)]
pub(super) struct Counted {
    /// The table.
    pub(super) place: &'static str,
    /// By which name it is told from others.
    pub(super) by: &'static str,
    /// What could otherwise not be told from others.
    pub(super) what: &'static str,
    /// What the texts may name.
    pub(super) allowed: &'static [&'static str],
}

/// The effects of an intent.
pub(super) const PLAN: Counted =
    Counted { place: "effects", by: "intent", what: "the effects of one intent", allowed: BEFORE };

/// Notes what would let something not be counted.
pub(super) fn check(of: &Counted, spec: &EffectsSpec, reading: &mut Reading<'_>) {
    let at = of.place;
    headers(&format!("{at}.headers"), &spec.headers, of.allowed, reading);
    pointer(&format!("{at}.pointer"), &spec.pointer, of.allowed, reading);
    match (&spec.url, &spec.database, &spec.sql) {
        (Some(url), None, None) => by_url(of, url, spec, reading),
        (None, Some(database), Some(sql)) => by_sql(of, database, sql, reading),
        (None, None, None) => reading.problem(
            at,
            format!(
                "`{at}` says nowhere how to count: set `url` with `pointer`, or `database` with `sql`"
            ),
        ),
        (Some(_), ..) => reading.problem(
            at,
            format!("`{at}` has both `url` and `database` or `sql`: count in one place"),
        ),
        _ => reading.problem(at, format!("`{at}.database` and `{at}.sql` belong together")),
    }
}

fn by_url(of: &Counted, url: &str, spec: &EffectsSpec, reading: &mut Reading<'_>) {
    let Counted { place, by, what, .. } = of;
    let at = format!("{place}.url");
    templates(&at, url, of.allowed, reading);
    if url.starts_with('/') {
        local_path(&at, url, reading);
    } else if !template::has_variable(url)
        && !is_url(&template::replaced(url, |_| Some("x".into())))
    {
        let message = format!("`{at}` must be a path of the target, or an http or https URL");
        reading.problem(&at, message);
    }
    if !template::has(url, by) && !template::has(&spec.pointer, by) {
        reading.problem(
            place,
            format!(
                "`{place}` names `{{{{{by}}}}}` neither in `url` nor in `pointer`: {what} could not be \
                 told from those of others"
            ),
        );
    }
}

fn by_sql(of: &Counted, database: &str, sql: &str, reading: &mut Reading<'_>) {
    let Counted { place, by, what, .. } = of;
    let schemes = ["sqlite:", "postgres://", "postgresql://"];
    let known = schemes
        .iter()
        .any(|scheme| database.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()));
    if !known && !template::has_variable(database) {
        let message = format!("`{place}.database` must be \"sqlite:PATH\" or \"postgres://…\"");
        reading.problem(&format!("{place}.database"), message);
    }
    let at = format!("{place}.sql");
    if !sql.contains("$1") {
        reading.problem(
            &at,
            format!(
                "`{at}` holds no `$1`, the {by}'s name: {what} could not be told from those of others"
            ),
        );
    }
    if template::has(sql, by) {
        reading.problem(&at, format!("`{at}` takes the {by}'s name as `$1` only"));
    }
    for unused in ["pointer", "headers"] {
        let unused = format!("{place}.{unused}");
        if reading.says(&unused) {
            let message = format!("`{unused}` belongs to `{place}.url`, not to SQL");
            reading.problem(&unused, message);
        }
    }
}
