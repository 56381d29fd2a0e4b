// SPDX-License-Identifier: Apache-2.0
//! Objects of an S3 store as regions. `OBJECT_URL` names a bucket of a store that is there, as
//! test/storage/with-s3 makes it; without it nothing is tested here.
use crate::{other, ranks};
use nixlrun::{Code, Kind, Objects, Op};
use std::time::Duration;

const SOON: Option<Duration> = Some(Duration::from_secs(20));
const NBYTES: usize = 3000;

/// The bucket, or the test ends.
macro_rules! bucket {
    () => {
        match std::env::var("OBJECT_URL") {
            Ok(url) => url,
            Err(_) => return Ok(()),
        }
    };
}

ranks!(objects_of_a_table, 2, |job| {
    let url = bucket!();
    let peer = other(job);
    let name = format!("{url}/rust/{}", job.rank());
    let store = job.open_object("store", &name, &Objects::new().table(3, NBYTES as u64))?;
    let world = job.team_world(SOON)?;
    let data: Vec<u8> = (0..NBYTES).map(|i| (i * 7 + job.rank() as usize) as u8).collect();
    let mut back = vec![0u8; 10];

    world.barrier()?;
    store.put(peer, NBYTES as u64, &data)?;
    store.put(peer, 0, &data[..1000])?;
    store.put_with(peer, 1000, &data[1000..], &Op::new().durable().note(7, b""))?;
    job.flush_durable(None, SOON)?;
    job.recv(Some(peer), Some(7), SOON)?;
    store.get(peer, NBYTES as u64 + 100, &mut back)?;
    assert_eq!(back, data[100..110]);
    world.barrier()?;
    let info = store.object_stat(1, SOON)?;
    assert_eq!((info.number, info.nbytes), (Some(1), NBYTES as u64));
    assert_eq!(info.key, "0000000000000001");
    assert!(!info.etag.is_empty());
    let all = store.object_list(None, SOON)?;
    assert_eq!(all.iter().map(|info| info.number).collect::<Vec<_>>(), [Some(0), Some(1)]);
    assert_eq!(store.object_list(Some(&all[0].key), SOON)?, [info]);
    assert_eq!(store.query(peer, SOON)?.kind, Kind::Object);
    assert!(store.as_ptr().is_null() && store.bytes().is_none());
    store.object_delete(0, SOON)?;
    store.object_delete(1, SOON)?;
    store.object_delete(1, SOON)?;
    assert_eq!(store.object_stat(1, SOON).expect_err("gone").code(), Code::NotFound);
    assert_eq!(store.object_stat(3, SOON).expect_err("no number").code(), Code::Range);
    assert!(store.object_list(None, SOON)?.is_empty());
    world.barrier()?;
});

ranks!(keys_and_one_object, 1, |job| {
    let url = bucket!();
    let name = format!("{url}/rust/keyed");
    let keyed = job.open_object("keyed", &name, &Objects::new().keys(["a b", "c/d"], 100).md5())?;

    keyed.put(0, 0, &[5u8; 200])?;
    assert_eq!(keyed.object_stat(1, SOON)?.key, "c/d");
    let one = Objects::new().read_only().aws_region("us-east-1");
    let plain = job.open_object(None, &format!("{name}/c/d"), &one)?;
    assert_eq!(plain.nbytes(), 100);
    assert_eq!(plain.object_delete(0, SOON).expect_err("read only").code(), Code::Access);
    keyed.object_delete(0, SOON)?;
    keyed.object_delete(1, SOON)?;
});

ranks!(refused_objects, 1, |job| {
    let url = bucket!();
    let refused = |url: &str, objects: &Objects| job.open_object("x", url, objects).map(|_| ());

    let missing = refused(&format!("{url}/rust/missing"), &Objects::new()).expect_err("missing");
    assert_eq!(missing.code(), Code::NotFound);
    let bad = refused("ftp://x/y", &Objects::new()).expect_err("a bad URL");
    assert_eq!(bad.code(), Code::InvalidArg);
    let zero = refused(&url, &Objects::new().keys(["a\0b"], 1)).expect_err("a zero byte");
    assert_eq!(zero.code(), Code::InvalidArg);
    let none = refused(&url, &Objects::new().keys(Vec::<String>::new(), 1)).expect_err("no keys");
    assert_eq!(none.code(), Code::InvalidArg);
    let memory = job.region("memory", 64)?;
    assert_eq!(memory.object_stat(0, SOON).expect_err("memory").code(), Code::InvalidArg);
});
