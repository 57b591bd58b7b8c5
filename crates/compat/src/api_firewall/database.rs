//! The documents of the API mode: rows of the table `openapi_schemas` in an SQLite database, which somebody else writes.
//!
//! Read whole, in bounds, each time. The second layout has a status, which is set once a document is in use, as the original does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, Row};

use super::arguments::Settings;

/// Where the database is unless it is said; the number is that of the layout.
const DEFAULT_PATHS: [(u8, &str); 2] =
    [(2, "/var/lib/wallarm-api/2/wallarm_api.db"), (1, "/var/lib/wallarm-api/1/wallarm_api.db")];

/// Documents in one database.
const MAX_SCHEMAS: usize = 1_000;

/// Largest value in a row, bytes; a document is at most as large as any other (`limits.max_document`).
const MAX_VALUE_BYTES: i32 = 32 * 1024 * 1024;

/// How long a writer is waited for.
const BUSY: Duration = Duration::from_secs(1);

/// A document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Schema {
    /// Its number.
    pub(super) id: u32,
    /// What its owner calls this state of it.
    pub(super) version: String,
    /// The document.
    pub(super) text: String,
    is_json: bool,
    is_new: bool,
}

impl Schema {
    /// The contract that is made of it.
    pub(super) fn contract(&self) -> String {
        format!("schema-{}", self.id)
    }

    /// What it is called in messages.
    pub(super) fn file_name(&self) -> String {
        format!("schema-{}.{}", self.id, if self.is_json { "json" } else { "yaml" })
    }
}

/// The database that the settings mean: the one they name, else the first that is there.
///
/// # Errors
/// The layout is none.
pub(super) fn place(settings: &Settings) -> Result<PathBuf, String> {
    let layout = settings.get("API_MODE_DB_VERSION");
    if !matches!(layout, "0" | "1" | "2") {
        return Err(format!("API_MODE_DB_VERSION: {layout:?} is none of 0, 1 and 2"));
    }
    let named = settings.get("API_MODE_DEBUG_PATH_DB");
    if !named.is_empty() {
        return Ok(PathBuf::from(named));
    }
    let wanted = DEFAULT_PATHS.iter().filter(|(number, _)| layout == "0" || layout == number.to_string());
    let mut paths = wanted.map(|(_, path)| PathBuf::from(path));
    let first = paths.next().unwrap_or_default();
    if first.exists() { Ok(first) } else { Ok(paths.find(|path| path.exists()).unwrap_or(first)) }
}

/// All documents, and what is odd about rows that are left out.
///
/// # Errors
/// The database cannot be read.
pub(super) fn read(database: &Path) -> Result<(Vec<Schema>, Vec<String>), String> {
    let failed = |error: rusqlite::Error| format!("{}: {error}", database.display());
    let connection = open(database, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(failed)?;
    let mut columns = connection.prepare("SELECT name FROM pragma_table_info('openapi_schemas')").map_err(failed)?;
    let names = columns.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
    let has_status = names.filter_map(Result::ok).any(|name| name == "status");
    let status = if has_status { "status" } else { "'applied'" };
    let query = format!(
        "SELECT schema_id, schema_version, schema_format, schema_content, {status} FROM openapi_schemas ORDER BY rowid"
    );
    let mut statement = connection.prepare(&query).map_err(failed)?;
    let rows = statement.query_map([], |row| Ok(schema(row))).map_err(failed)?;
    let (mut schemas, mut left_out): (Vec<Schema>, Vec<String>) = (Vec::new(), Vec::new());
    for row in rows {
        match row.map_err(failed)? {
            Ok(_) if schemas.len() >= MAX_SCHEMAS => {
                return Err(format!("{}: more than {MAX_SCHEMAS} schemas", database.display()));
            }
            Ok(schema) => {
                if let Some(at) = schemas.iter().position(|other| other.id == schema.id) {
                    let older = schemas.remove(at);
                    left_out.push(format!("schema {} is there twice; version {} is left out", older.id, older.version));
                }
                schemas.push(schema);
            }
            Err(problem) => left_out.push(problem),
        }
    }
    schemas.sort_by_key(|schema| schema.id);
    Ok((schemas, left_out))
}

fn schema(row: &Row<'_>) -> Result<Schema, String> {
    let id: i64 = row.get(0).map_err(|error| format!("a schema has no number: {error}"))?;
    let column = |at: usize| row.get::<_, String>(at).map_err(|error| format!("schema {id} is left out: {error}"));
    let format = column(2)?.to_ascii_lowercase();
    if !matches!(format.as_str(), "json" | "yaml") {
        return Err(format!("schema {id} is left out: its format {format:?} is neither json nor yaml"));
    }
    let number = u32::try_from(id).map_err(|_| format!("schema {id} is left out: no such number can be asked for"))?;
    Ok(Schema {
        id: number,
        version: column(1)?,
        text: column(3)?,
        is_json: format == "json",
        is_new: column(4)? == "new",
    })
}

/// Says in the database which documents are in use now. One without a status has nothing to be said in.
///
/// # Errors
/// It cannot be written.
pub(super) fn mark_applied(database: &Path, schemas: &[Schema]) -> Result<(), String> {
    let new: Vec<&Schema> = schemas.iter().filter(|schema| schema.is_new).collect();
    if new.is_empty() {
        return Ok(());
    }
    let failed = |error: rusqlite::Error| format!("{}: cannot set the status of schemas: {error}", database.display());
    let connection = open(database, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(failed)?;
    for schema in new {
        const UPDATE: &str = "UPDATE openapi_schemas SET status = 'applied' \
                              WHERE schema_id = ?1 AND schema_version = ?2 AND status = 'new'";
        connection.execute(UPDATE, (schema.id, &schema.version)).map_err(failed)?;
    }
    Ok(())
}

fn open(database: &Path, access: OpenFlags) -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open_with_flags(database, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn database(sql: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wallarm_api.db");
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        (folder, path)
    }

    const FIRST: &str = "CREATE TABLE openapi_schemas (schema_id INTEGER, schema_version TEXT, schema_format TEXT, schema_content TEXT);";
    const SECOND: &str = "CREATE TABLE openapi_schemas \
        (schema_id INTEGER, schema_version TEXT, schema_format TEXT, schema_content TEXT, status TEXT);";

    #[test]
    fn both_layouts_are_read() {
        let (_folder, path) = database(&format!(
            "{FIRST} INSERT INTO openapi_schemas VALUES (7, '1', 'yaml', 'a: b'), (3, '2', 'JSON', '{{}}');"
        ));
        let (schemas, left_out) = read(&path).unwrap();
        let seen: Vec<_> = schemas.iter().map(|schema| (schema.id, schema.file_name())).collect();
        assert_eq!(seen, [(3, "schema-3.json".to_owned()), (7, "schema-7.yaml".to_owned())]);
        assert!(left_out.is_empty() && mark_applied(&path, &schemas).is_ok());
        let (_folder, path) = database(&format!(
            "{SECOND} INSERT INTO openapi_schemas VALUES (1, 'a', 'yaml', 'x', 'new'), (2, 'b', 'yaml', 'y', 'applied');"
        ));
        let (schemas, _) = read(&path).unwrap();
        assert_eq!(schemas.iter().map(|schema| schema.is_new).collect::<Vec<_>>(), [true, false]);
        mark_applied(&path, &schemas).unwrap();
        assert!(read(&path).unwrap().0.iter().all(|schema| !schema.is_new));
    }

    #[test]
    fn rows_that_mean_nothing_are_left_out_and_named() {
        let (_folder, path) = database(&format!(
            "{FIRST} INSERT INTO openapi_schemas VALUES (1, 'a', 'toml', ''), (-1, 'a', 'yaml', ''), (NULL, 'a', 'yaml', ''), \
             (2, 'a', 'yaml', NULL), (3, 'old', 'yaml', 'x'), (3, 'young', 'yaml', 'y');"
        ));
        let (schemas, left_out) = read(&path).unwrap();
        assert_eq!(schemas.iter().map(|schema| (schema.id, &*schema.version)).collect::<Vec<_>>(), [(3, "young")]);
        assert_eq!(left_out.len(), 5, "{left_out:?}");
        assert!(left_out.iter().any(|line| line.contains("version old")), "{left_out:?}");
    }

    #[test]
    fn what_is_no_database_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none.db");
        assert!(read(&path).is_err() && !path.exists(), "reading makes no database");
        std::fs::write(&path, "this is no database, but long enough to be one: ".repeat(40)).unwrap();
        assert!(read(&path).is_err());
        let (_folder, path) = database("CREATE TABLE other (a INTEGER);");
        assert!(read(&path).is_err());
    }
}
