//! What must hold between the settings that say how effects are counted.

use super::{
    super::{reading::Reading, spec::EffectsSpec, template},
    BEFORE, headers, is_url, local_path, pointer, templates,
};

/// Notes what would let the effects of one intent not be counted.
pub(super) fn check(spec: &EffectsSpec, reading: &mut Reading<'_>) {
    headers("effects.headers", &spec.headers, BEFORE, reading);
    pointer("effects.pointer", &spec.pointer, BEFORE, reading);
    match (&spec.url, &spec.database, &spec.sql) {
        (Some(url), None, None) => by_url(url, spec, reading),
        (None, Some(database), Some(sql)) => by_sql(database, sql, reading),
        (None, None, None) => reading.problem(
            "effects",
            "`effects` says nowhere how to count: set `url` with `pointer`, or `database` with `sql`",
        ),
        (Some(_), ..) => reading.problem(
            "effects",
            "`effects` has both `url` and `database` or `sql`: count in one place",
        ),
        _ => reading.problem("effects", "`effects.database` and `effects.sql` belong together"),
    }
}

fn by_url(url: &str, spec: &EffectsSpec, reading: &mut Reading<'_>) {
    templates("effects.url", url, BEFORE, reading);
    if url.starts_with('/') {
        local_path("effects.url", url, reading);
    } else if !template::has_variable(url)
        && !is_url(&template::replaced(url, |_| Some("x".into())))
    {
        let message = "`effects.url` must be a path of the target, or an http or https URL";
        reading.problem("effects.url", message);
    }
    if !template::has(url, "intent") && !template::has(&spec.pointer, "intent") {
        reading.problem(
            "effects",
            "`effects` names `{{intent}}` neither in `url` nor in `pointer`: the effects of one intent \
             could not be told from those of others",
        );
    }
}

fn by_sql(database: &str, sql: &str, reading: &mut Reading<'_>) {
    let schemes = ["sqlite:", "postgres://", "postgresql://"];
    let known = schemes
        .iter()
        .any(|scheme| database.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()));
    if !known && !template::has_variable(database) {
        let message = "`effects.database` must be \"sqlite:PATH\" or \"postgres://…\"";
        reading.problem("effects.database", message);
    }
    if !sql.contains("$1") {
        reading.problem(
            "effects.sql",
            "`effects.sql` holds no `$1`, the intent's name: the effects of one intent could not be \
             told from those of others",
        );
    }
    if template::has(sql, "intent") {
        reading.problem("effects.sql", "`effects.sql` takes the intent's name as `$1` only");
    }
    for unused in ["effects.pointer", "effects.headers"] {
        if reading.says(unused) {
            reading.problem(unused, format!("`{unused}` belongs to `effects.url`, not to SQL"));
        }
    }
}
