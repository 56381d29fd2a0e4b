// SPDX-License-Identifier: Apache-2.0
//! Files and directories as regions: opened by one rank, used by all; what is durable, and what a file cannot do.
use crate::{other, ranks};
use nixlrun::{Blocks, Code, Directory, File, Kind, Op};
use std::os::unix::io::AsFd;
use std::path::PathBuf;
use std::time::Duration;

const SOON: Option<Duration> = Some(Duration::from_secs(20));

/// A path of this rank's.
fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("nixlrun-rust-{name}-{}", std::process::id()))
}

ranks!(put_and_get_of_files, 2, |job| {
    let peer = other(job);
    let path = path("put");
    let store = job.open_file("store", &path, &File::new().create_new().nbytes(1 << 20))?;
    let world = job.team_world(SOON)?;

    world.barrier()?;
    store.put_with(peer, 5000, b"durable", &Op::new().durable().note(7, b""))?;
    job.recv(Some(peer), Some(7), SOON)?;
    assert_eq!(&std::fs::read(&path).expect("the file")[5000..5007], b"durable");
    let mut bytes = [0u8; 7];
    store.get(peer, 5000, &mut bytes)?;
    assert_eq!(&bytes, b"durable");
    job.flush_durable(Some(peer), SOON)?;
    job.flush_durable(None, SOON)?;
    let info = store.query(peer, SOON)?;
    assert_eq!((info.kind, info.nbytes), (Kind::File, 1 << 20));
    assert!(store.as_ptr().is_null() && store.bytes().is_none());
    world.barrier()?;
    std::fs::remove_file(&path).expect("the file");
});

ranks!(durable_transfers, 2, |job| {
    let peer = other(job);
    let path = path("transfer");
    let store = job.open_file("store", &path, &File::new().create().direct().nbytes(65536))?;
    let world = job.team_world(SOON)?;
    let source = job.region(None, 65536)?;

    source.write(0, &vec![job.rank() as u8 + 1; 65536])?;
    world.barrier()?;
    let blocks = |region| Blocks::strided(region, 0, 4096, 4096, 16);
    let transfer = job.prepare_put(peer, vec![blocks(&source)], vec![blocks(&store)])?;
    transfer.run(&Op::new().durable().note(8, b""))?;
    job.recv(Some(peer), Some(8), SOON)?;
    let found = std::fs::read(&path).expect("the file");
    assert_eq!(found, vec![peer as u8 + 1; 65536]);
    world.barrier()?;
    std::fs::remove_file(&path).expect("the file");
});

ranks!(descriptors_and_refusals, 1, |job| {
    let path = path("fd");

    std::fs::write(&path, [b'x'; 5000]).expect("a file");
    let file = std::fs::File::open(&path).expect("the file");
    let part = job.open_fd("part", file.as_fd(), &File::new().offset(1000))?;
    assert_eq!(part.nbytes(), 4000);
    let mut bytes = [0u8; 3];
    part.get(0, 0, &mut bytes)?;
    assert_eq!(&bytes, b"xxx");
    drop(part);
    let missing = job.open_file("none", "/nonexistent/file", &File::new()).expect_err("missing");
    assert_eq!(missing.code(), Code::NotFound);
    let zero = job.open_file("none", "a\0b", &File::new()).expect_err("a zero byte");
    assert_eq!(zero.code(), Code::InvalidArg);
    let memory = job.region("memory", 64)?;
    let refused = memory.put_with(0, 0, &[1u8], &Op::new().durable()).expect_err("memory");
    assert_eq!(refused.code(), Code::Unsupported);
    std::fs::remove_file(&path).expect("the file");
});

ranks!(directories, 2, |job| {
    let peer = other(job);
    let path = path("directory");
    let table = Directory::new().table(4, 3000).create();
    let blocks = job.open_directory("blocks", &path, &table)?;
    let world = job.team_world(SOON)?;
    let data: Vec<u8> = (0..3000).map(|i| (i * 3 + job.rank() as usize) as u8).collect();
    let mut back = [0u8; 10];

    world.barrier()?;
    blocks.put(peer, 6000, &data[..1000])?;
    blocks.put_with(peer, 7000, &data[1000..], &Op::new().durable().note(7, b""))?;
    job.recv(Some(peer), Some(7), SOON)?;
    blocks.get(peer, 6500, &mut back)?;
    assert_eq!(back, data[500..510]);
    let there = blocks.object_list(None, SOON)?;
    assert_eq!(there.iter().map(|info| info.number).collect::<Vec<_>>(), [Some(2)]);
    assert_eq!(std::fs::metadata(path.join(&there[0].key)).expect("a file").len(), 3000);
    world.barrier()?;
    drop(blocks);
    let keyed = Directory::new().keys(["0000000000000002", "other"], 3000).in_place().direct();
    let keyed = job.open_directory(None, &path, &keyed)?;
    keyed.put(job.rank(), 3010, b"x")?;
    assert_eq!(keyed.object_stat(1, SOON)?.nbytes, 11);
    keyed.object_delete(1, SOON)?;
    let all = job.open_directory(None, &path, &Directory::new().read_only())?;
    assert_eq!(all.nbytes(), 3000);
    assert_eq!(all.object_delete(0, SOON).expect_err("read only").code(), Code::Access);
    let missing = job.open_directory(None, "/nonexistent/directory", &Directory::new());
    assert_eq!(missing.map(|_| ()).expect_err("missing").code(), Code::NotFound);
    world.barrier()?;
    std::fs::remove_dir_all(&path).expect("the directory");
});
