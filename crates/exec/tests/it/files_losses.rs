//! An array in files whose start is refused over rows that may be torn and have lost data.

use std::fs;

use destage_cache::ServedTier;
use destage_exec::{FileExecutor, FilesError, IoBackend};
use destage_plan::{HostOp, HostRequest, LostPages, PageRange, Refusal, Status};
use destage_raid::RaidLevel;
use destage_raid::array::ArrayConfig;
use destage_testkit::{ArraySizes, ExpectedContent, data, folder};

use crate::arrays::{Array, assert_holds, member, serve};

backend_tests! {
    a_start_with_the_losses_named_goes_on_and_tells_of_them,
}

/// Writes the first pages of every stripe, and ends without a flush.
fn write_and_end(files: &mut FileExecutor<Box<dyn ServedTier>>, sizes: &ArraySizes, content: &mut ExpectedContent) {
    for (tag, page) in (0..sizes.pages).step_by(sizes.stripe as usize).enumerate() {
        let (offset, len) = (page * sizes.page, 3 * sizes.page);
        let request = HostRequest { tag: tag as u64, op: HostOp::Write, offset, len, fua: false };
        let bytes = data(&request, sizes.sector);
        content.apply(&request, &bytes);
        assert!(serve(files, request, bytes).ok);
    }
}

fn open(array: &Array, folder: &std::path::Path, accepted: &[PageRange]) -> FileExecutor<Box<dyn ServedTier>> {
    let config = ArrayConfig { accepted_losses: accepted.to_vec(), ..array.config() };
    let controller = destage_cache::serve("none", &config, 0).expect("an array that can be");
    FileExecutor::open(controller, array.files(folder)).expect("the files are there")
}

fn lost_of(files: &FileExecutor<Box<dyn ServedTier>>) -> LostPages {
    match files.status() {
        Status::Refused(Refusal::WriteHole { lost, .. }) => lost,
        other => panic!("{other:?}: it was to be refused over what is lost"),
    }
}

fn a_start_with_the_losses_named_goes_on_and_tells_of_them(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid5, 4);
    let folder = folder();
    let sizes = array.sizes();
    let mut content = ExpectedContent::new(sizes);
    let mut files = array.create(folder.path());
    write_and_end(&mut files, &sizes, &mut content);
    drop(files);
    let (path, aside) = (member(folder.path(), 1), folder.path().join("aside"));
    fs::rename(&path, &aside).expect("the file is there");

    let mut files = open(&array, folder.path(), &[]);
    let first = lost_of(&files);
    assert!(first.named().len() == LostPages::NAMED && first.unnamed() > 0, "{first:?}");
    let error = files.wait_ready().expect_err("it is refused").to_string();
    let begin = format!("{} to {}, ", first.named()[0].first, first.named()[0].end() - 1);
    let end = format!(" and {} ranges more", first.unnamed());
    assert!(error.contains(&begin) && error.contains(&end) && error.contains("accepted losses"), "{error}");
    drop(files);

    // Nothing was noted: the member may be brought back.
    fs::rename(&aside, &path).expect("it was put aside");
    let mut files = open(&array, folder.path(), &[]);
    assert_holds(&mut files, &content, "with the member back");
    assert!(files.engine().controller().array().lost().is_empty());
    write_and_end(&mut files, &sizes, &mut content);
    drop(files);
    fs::rename(&path, &aside).expect("the file is there");

    // What is named is accepted, and the rest is named.
    let mut accepted = first.named().to_vec();
    let mut files = open(&array, folder.path(), &accepted);
    let second = lost_of(&files);
    assert_eq!(second.pages(), first.pages() - accepted.iter().map(|range| range.pages).sum::<u64>());
    assert!(matches!(files.wait_ready(), Err(FilesError::Refused(_))));
    drop(files);
    accepted.extend(second.named());
    let mut files = open(&array, folder.path(), &accepted);
    files.wait_ready().expect("all is accepted");
    assert_eq!(files.engine().controller().array().lost(), accepted, "told of, and nothing else");
    // No row was torn, for nothing was under way.
    assert_holds(&mut files, &content, "without the member");
    drop(files.stop_clean().expect("the array stops"));
    let mut files = open(&array, folder.path(), &[]);
    assert_holds(&mut files, &content, "with nothing to be accepted any more");
}
