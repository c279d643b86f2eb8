//! Taking records out of the store and into it, while nobody writes.

use std::collections::BTreeMap;

use async_trait::async_trait;
use redis::{Value, cmd};
use semel::{
    Fence, Record, StoreError, codec,
    store::{
        capability::AuditRow,
        moving::{
            Brought, Closed, Move, Standing, Trail, records_within_bounds, rows_within_bounds,
        },
    },
};

use crate::{
    RedisStore, audit,
    error::{Fault, odd},
    row,
    scripts::Script,
    space::{BUCKETS, Place, Space},
    store::{TOGETHER, all},
    verb::{digits, fence, saw},
};

#[async_trait]
impl Move for RedisStore {
    /// It is closed when a part of it is: who closed it was perhaps cut short, and whoever relies on it closes
    /// it once more.
    async fn standing(&self) -> Result<Standing, StoreError> {
        let floors = all((0..BUCKETS).map(|bucket| self.floor(bucket)).collect(), TOGETHER).await?;
        let floor = floors.iter().map(|(floor, _)| *floor).max().unwrap_or_default();
        let is = |wanted| floors.iter().any(|(_, why)| *why == Some(wanted));
        let closed = [Closed::Arriving, Closed::Away].into_iter().find(|why| is(*why));
        Ok(Standing { closed, floor })
    }

    async fn close(&self, why: Closed) -> Result<(), StoreError> {
        Ok(self.everywhere(&self.scripts.close, why.as_str().as_bytes()).await?)
    }

    async fn open(&self) -> Result<(), StoreError> {
        Ok(self.everywhere(&self.scripts.close, b"").await?)
    }

    async fn bring(&self, records: Vec<Record>) -> Result<Vec<Brought>, StoreError> {
        records_within_bounds(&records)?;
        let mut parts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let places: Vec<_> = records.iter().map(|record| Space::place(&record.id)).collect();
        for (at, place) in places.iter().enumerate() {
            parts.entry(place.bucket).or_default().push(at);
        }
        let each = parts.into_values().map(|ats| self.brought(&records, &places, ats));
        let mut answers: Vec<_> =
            all(each.collect(), TOGETHER).await?.into_iter().flatten().collect();
        answers.sort_by_key(|(at, _)| *at);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    async fn recall(&self, rows: Vec<AuditRow>) -> Result<u64, StoreError> {
        rows_within_bounds(&rows)?;
        let mut parts: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
        for row in &rows {
            parts.entry(Space::place(&row.id).bucket).or_default().push(audit::bytes(row));
        }
        let each = parts.into_iter().map(|(bucket, rows)| self.recalled(bucket, rows));
        Ok(all(each.collect(), TOGETHER).await?.into_iter().sum())
    }

    async fn raise(&self, floor: Fence) -> Result<(), StoreError> {
        Ok(self.everywhere(&self.scripts.raise, &floor.get().to_be_bytes()).await?)
    }

    /// A page is what one part has.
    async fn trail(&self, from: u64) -> Result<Trail, StoreError> {
        let bucket = usize::try_from(from).unwrap_or(BUCKETS);
        if bucket >= BUCKETS {
            return Ok(Trail::default());
        }
        let mut rows = self.rows_in(bucket).await?;
        rows.reverse();
        Ok(Trail { rows, next: (bucket + 1 < BUCKETS).then_some(from + 1) })
    }
}

impl RedisStore {
    /// Reads the floor of a part, and why the part is closed.
    async fn floor(&self, bucket: usize) -> Result<(Fence, Option<Closed>), Fault> {
        let mut get = cmd("GET");
        get.arg(self.link.space.bucket(bucket).key("floor"));
        let said = self.link.look(bucket, &get).await?;
        let why = match &said {
            Value::BulkString(bytes) => match bytes.get(8..).unwrap_or_default() {
                b"" => None,
                b"arriving" => Some(Closed::Arriving),
                _ => Some(Closed::Away),
            },
            _ => None,
        };
        Ok((fence(said)?, why))
    }

    /// Runs a script about its floor in every part.
    async fn everywhere(&self, script: &Script, arg: &[u8]) -> Result<(), Fault> {
        let run = |bucket| async move {
            let keys = [self.link.space.bucket(bucket).key("floor")];
            self.link.run(bucket, script, &keys, &[arg]).await
        };
        all((0..BUCKETS).map(run).collect(), TOGETHER).await.map(drop)
    }

    /// Brings those records that lie in one part.
    async fn brought(
        &self,
        records: &[Record],
        places: &[Place],
        ats: Vec<usize>,
    ) -> Result<Vec<(usize, Brought)>, Fault> {
        let bucket = places[ats[0]].bucket;
        let of = self.link.space.bucket(bucket);
        let mut keys: Vec<_> = ["floor", "names", "held", "due"].map(|what| of.key(what)).into();
        let mut args = Vec::with_capacity(4 * ats.len());
        for at in &ats {
            let (record, name) = (&records[*at], &places[*at].name);
            keys.extend([of.of("r", name), of.of("o", name)]);
            let outcome = record.outcome.as_ref().map(codec::encode);
            args.extend([row::bytes(record), vec![if outcome.is_some() { b'1' } else { b'0' }]]);
            args.extend([outcome.unwrap_or_default(), name.clone()]);
        }
        let args: Vec<_> = args.iter().map(Vec::as_slice).collect();
        let said = self.link.run(bucket, &self.scripts.bring, &keys, &args).await?;
        let [now, Value::Array(answers)] = <[Value; 2]>::try_from(said).map_err(|_| odd())? else {
            return Err(odd());
        };
        let answer = |(at, said): (usize, Value)| Ok((at, judged(&records[at], &now, said)?));
        ats.into_iter().zip(answers).map(answer).collect()
    }

    async fn recalled(&self, bucket: usize, rows: Vec<Vec<u8>>) -> Result<u64, Fault> {
        let of = self.link.space.bucket(bucket);
        let kept = digits(self.audit_max);
        let mut args = vec![&kept[..]];
        args.extend(rows.iter().map(Vec::as_slice));
        let keys = [of.key("audit"), of.key("floor")];
        let said = self.link.run(bucket, &self.scripts.recall, &keys, &args).await?;
        match &said[..] {
            [_, Value::Int(added)] => Ok(u64::try_from(*added).unwrap_or_default()),
            _ => Err(odd()),
        }
    }
}

/// Reads what became of a record.
fn judged(record: &Record, now: &Value, said: Value) -> Result<Brought, Fault> {
    let kept = match said {
        Value::Int(1) => return Ok(Brought::Stored),
        Value::Int(_) => return Ok(Brought::Over),
        Value::Array(kept) => kept,
        _ => return Err(odd()),
    };
    let [kept, outcome] = <[Value; 2]>::try_from(kept).map_err(|_| odd())?;
    let seen = saw(&record.id, now.clone(), kept, outcome)?;
    Ok(Brought::of(seen.record.as_ref(), record, seen.now).unwrap_or(Brought::Over))
}
