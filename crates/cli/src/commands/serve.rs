//! `destage serve`: an array as a network block device.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use destage_engine::{
    AcceptedLosses, ArrayBackend, ArrayDescription, ArrayStatus, BlockBackend, BlockService, DeviceOffer,
    ExportSettings, RequestRecorder, ServiceEvent, SocketListener, UblkDevice, raise_descriptor_limit,
};
use destage_metrics::MetricsServer;
use destage_plan::quantity::show_bytes;

use super::block_device;
use super::served::{array_arg, beside, control, control_arg, description};
use crate::event_log::{EventLog, LogForm, log_args};
use crate::event_program::EventProgram;
use crate::output::{CommandOutputs, NewFile, refused};
use crate::screen::TerminalScreen;
use crate::signals;

/// The command.
pub fn command() -> Command {
    let text = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    Command::new("serve")
        .about("Serve an array as a network block device (NBD)")
        .after_help(
            "It goes on until destage stop or a signal ends it in order: requests are answered, and nothing is left to be \
             recovered. A second signal ends it at once, which is as safe as a crash. docs/service.md has more.",
        )
        .arg(array_arg())
        .arg(
            text("socket", "PATH")
                .action(ArgAction::Append)
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::FilePath)
                .help("A Unix socket for clients [default: nbd.sock beside the description, unless --tcp is given or systemd hands sockets over]"),
        )
        .arg(
            text("tcp", "ADDRESS:PORT")
                .action(ArgAction::Append)
                .help("A TCP address for clients, such as 127.0.0.1:10809; whoever can reach it can write"),
        )
        .arg(
            text("ublk", "NUMBER")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("any")
                .value_parser(device_number)
                .help(
                    "Serve the block device /dev/ublkbNUMBER, or the first free one. A device that waits for this array is resumed. \
                     No socket is opened unless --socket or --tcp is given",
                ),
        )
        .arg(text("name", "NAME").default_value("").hide_default_value(true).help("The export's name [default: none]"))
        .arg(Arg::new("read-only").long("read-only").action(ArgAction::SetTrue).help("Nothing can be written"))
        .arg(Arg::new("accept-losses").long("accept-losses").action(ArgAction::SetTrue).help(
            "Go on although data is lost: with the NVRAM, the intents or the cache's device, if only they had writes that were \
             answered, or with a member, of rows that were being written; else such an array is refused, which says what is lost",
        ))
        .arg(control_arg())
        .args(log_args())
        .arg(
            text("record", "OUT")
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::FilePath)
                .help("Write all requests down as a trace, complete once the service ends"),
        )
        .arg(
            text("run", "COMMAND")
                .value_parser(value_parser!(OsString))
                .value_hint(ValueHint::CommandString)
                .help("Serve while this shell command runs, which finds $uri, $unixsocket and $blockdevice; its failure is ours"),
        )
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    raise_descriptor_limit();
    let path = description(matches);
    let described = ArrayDescription::read(&path)?;
    let mut sockets: Vec<PathBuf> = matches.get_many("socket").unwrap_or_default().cloned().collect();
    let addresses: Vec<&String> = matches.get_many("tcp").unwrap_or_default().collect();
    let handed_over = SocketListener::handed_over().context("cannot take the sockets that were handed over")?;
    let ublk = matches.get_one::<Option<u32>>("ublk").copied();
    if sockets.is_empty() && addresses.is_empty() && handed_over.is_empty() && ublk.is_none() {
        sockets.push(beside(&path, "nbd.sock"));
    }
    // The trace's file is opened before the array, so a wrong name costs no start.
    let mut outputs = CommandOutputs::apart_from([&path])?;
    let record = matches.get_one::<PathBuf>("record");
    let record = record.map(|to| Ok::<_, anyhow::Error>((to, RecordedTrace::begin(&mut outputs, to)?))).transpose()?;

    let log = EventLog::of(matches);
    let program = described.serve.on_event.clone().map(|command| Rc::new(EventProgram::start(command, &path, log)));
    let memory = described.serve.memory.0;
    let (metrics, metrics_open) = (described.serve.metrics, described.serve.metrics_open);
    let identity = block_device::identity(&described);
    // Before the array is opened, so the threads of its devices inherit it.
    if ublk.is_some() {
        block_device::serve_io();
    }
    let array = ArrayBackend::open(described, &path, accepted(matches))?;
    let status = array.status();
    let offer = ExportSettings {
        name: matches.get_one::<String>("name").cloned().unwrap_or_default(),
        description: format!("destage {} {}", status.level, status.policy),
        read_only: matches.get_flag("read-only"),
    };
    let mut service = BlockService::new(array, &offer)?;
    service.limit_memory(memory);
    // Orders are taken before clients can come: a client that finds the service can then ask it.
    let orders = control(matches);
    service.take_orders(&orders).with_context(|| format!("cannot take orders at {}", orders.display()))?;
    let metrics = metrics.map(|address| MetricsServer::start(address, metrics_open, &orders)).transpose()?;
    for listener in handed_over {
        service.listen(listener)?;
    }
    for socket in &sockets {
        let listener =
            SocketListener::unix(socket).with_context(|| format!("cannot listen at {}", socket.display()))?;
        service.listen(listener)?;
    }
    for address in addresses {
        service.listen(SocketListener::tcp(address).with_context(|| format!("cannot listen at {address}"))?)?;
    }
    // The block device comes last: from here on the kernel reads from it, and a failure would show up in other
    // programs.
    if let Some(device) = ublk {
        block_device::tell_of_wait(identity);
        let offer = DeviceOffer { device, identity, bytes: status.bytes, read_only: offer.read_only, depth: DEPTH };
        let (device, queue) = UblkDevice::open(&offer)?;
        service.attach(Box::new(device), queue)?;
    }
    if let Some((_, record)) = &record {
        let recorder = Rc::clone(&record.recorder);
        service.tell(move |request| {
            if let Some(recorder) = &mut *recorder.borrow_mut() {
                recorder.note(request);
            }
        });
    }
    let told = program.clone();
    let (appear, appears) = channel();
    let tell = move |event: ServiceEvent| {
        log.write(&event);
        if matches!(event, ServiceEvent::BlockDeviceStarted { .. }) {
            let _nobody_listens = appear.send(());
        }
        if let Some(program) = &told {
            program.tell(&event);
        }
    };
    let (stop, wake) = (service.stop_flag(), service.waker());
    signals::call(move |signal| {
        // A second signal ends it at once, which is as safe as a crash.
        if stop.swap(true, Ordering::Relaxed) {
            signals::end_now(signal);
        }
        wake();
    });
    let uris: Vec<String> = service.uris().collect();
    let mut rows = vec![
        ("array", path.display().to_string()),
        ("serving", format!("{} of {}, cache {}", show_bytes(status.bytes), status.level, status.policy)),
    ];
    if let Some(done) = &status.resynchronised {
        rows.push((if done.is_behind { "older copies" } else { "lost" }, done.lost.join(", ")));
        if done.data_lost {
            rows.push(("and with it", "writes that were answered and are on no member, if there were any".to_owned()));
        }
        let rest = format!("{} of {} rows, which members had marked; all others are consistent", done.rows, done.of);
        rows.push(("resynchronised", rest));
    }
    if let Some(why) = &status.no_uring {
        rows.push(("by threads", format!("there is no io_uring: {why}")));
    }
    let devices = status.devices.iter().map(|device| (&device.path, &device.buffered));
    let state = [&status.nvram, &status.intents].into_iter().map(|file| (&file.path, &file.buffered));
    for (path, buffered) in devices.chain(state) {
        let why = buffered.iter();
        rows.extend(why.map(|why| ("buffered", format!("{path}: no direct I/O: {why}"))));
    }
    if let Some(waiting) = ublk.is_none().then(|| block_device::waiting(identity)).flatten() {
        rows.push(("block device", format!("{waiting} waits for this array: --ublk lets it go on")));
    }
    if let Some(clients) = service.clients_for_want_of_files() {
        rows.push(("clients", format!("{clients} at a time at most, by the limit of open files (ulimit -Hn)")));
    }
    rows.extend(uris.iter().map(|uri| ("at", uri.clone())));
    rows.extend(metrics.iter().map(|metrics| ("metrics", format!("http://{}/metrics", metrics.address()))));
    if log.form() == LogForm::Text {
        TerminalScreen::stderr().pairs(rows)?;
    } else {
        tell(started(&path, &status, uris.clone()));
    }
    if let Some(done) = &status.resynchronised {
        let (lost, is_behind, rows, data_lost) = (done.lost.clone(), done.is_behind, done.rows, done.data_lost);
        tell(ServiceEvent::Resynchronised { lost, is_behind, rows, data_lost });
    }
    // Events so far were told directly, so the log begins with the start.
    service.tell_events(tell);
    let command = matches.get_one::<OsString>("run");
    let (stop, wake) = (service.stop_flag(), service.waker());
    let job = command.map(|command| {
        let first = uris.first().map_or("", String::as_str);
        let device = service.block_device();
        let job = ServedJob::new(command, first, sockets.first(), device.as_ref());
        let ended = move || {
            stop.store(true, Ordering::Relaxed);
            wake();
        };
        // The command must find the block device that it is told of.
        job.watch(device.map(|_| appears), ended)
    });
    let served = service.run();
    drop(metrics);
    if let Some(program) = program.and_then(Rc::into_inner) {
        // The program hears of the end before this process is gone.
        program.finish();
    }
    if let Some((to, record)) = record {
        let recorder = record.recorder.borrow_mut().take().context("the record is there until here")?;
        // The trace is completed even if the service failed: what was recorded is true.
        let file = recorder.finish().map_err(refused(to))?;
        outputs.commit([file])?;
    }
    served?;
    match job.map(JoinHandle::join) {
        Some(Ok(Ok(status))) if !status.success() => bail!("the command ended with {status}"),
        Some(Ok(Err(error))) => Err(error).context("cannot run the command"),
        _ => Ok(()),
    }
}

/// Returns the first event of a service.
fn started(path: &Path, status: &ArrayStatus, uris: Vec<String>) -> ServiceEvent {
    let (level, policy) = (status.level.clone(), status.policy.clone());
    ServiceEvent::Started { array: path.display().to_string(), level, policy, bytes: status.bytes, uris }
}

/// Returns the losses that the user accepts with the files of NVRAM and intents.
fn accepted(matches: &ArgMatches) -> AcceptedLosses {
    let all = matches.get_flag("accept-losses");
    AcceptedLosses { data: all, notes: all }
}

/// A trace that is being written.
struct RecordedTrace {
    recorder: Rc<RefCell<Option<RequestRecorder<NewFile>>>>,
}

impl RecordedTrace {
    fn begin(outputs: &mut CommandOutputs, to: &Path) -> Result<Self> {
        let recorder = RequestRecorder::new(outputs.file(to)?).map_err(refused(to))?;
        Ok(Self { recorder: Rc::new(RefCell::new(Some(recorder))) })
    }
}

/// The command that is served.
struct ServedJob {
    shell: std::process::Command,
}

impl ServedJob {
    fn new(command: &OsStr, uri: &str, socket: Option<&PathBuf>, device: Option<&String>) -> Self {
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg(command).env("uri", uri);
        if let Some(socket) = socket {
            shell.env("unixsocket", socket);
        }
        if let Some(device) = device {
            shell.env("blockdevice", device);
        }
        Self { shell }
    }

    /// Starts it, once there is what it waits for, and says so when it has ended.
    fn watch(
        mut self,
        waits: Option<Receiver<()>>,
        ended: impl FnOnce() + Send + 'static,
    ) -> JoinHandle<std::io::Result<ExitStatus>> {
        std::thread::spawn(move || {
            // If the service ends before, nobody says so any more.
            let status = match waits.map_or(Ok(()), |waits| waits.recv()) {
                Ok(()) => self.shell.spawn().and_then(|mut child| child.wait()),
                Err(_) => Ok(ExitStatus::default()),
            };
            ended();
            status
        })
    }
}

/// Requests that the block device has at a time at most.
const DEPTH: u16 = 128;

/// Reads the number of a block device: any, if there is none.
fn device_number(given: &str) -> Result<Option<u32>, String> {
    match given {
        "any" => Ok(None),
        _ => given.parse().map(Some).map_err(|_| "expected a number, as 0 of /dev/ublkb0".to_owned()),
    }
}
