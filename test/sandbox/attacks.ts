/** Who attacks. */
type Attacker = {
  isRoot: boolean;
  /** Whether root has made the stage: only then there are a device and a setuid program on it. */
  stagedByRoot: boolean;
};

export type Attack = {
  name: string;
  /** A shell's, in the worktree. Ends with 0 only if it got what it wanted. Variables: see `planted` in attacked-service.ts. */
  script: string;
  /** Whether it succeeds without a sandbox. Null: it is never tried there. */
  isOpen: ((who: Attacker) => boolean) | null;
};

const anyone = (): boolean => true;
const root = ({ isRoot }: Attacker): boolean => isRoot;
const staged = ({ stagedByRoot }: Attacker): boolean => stagedByRoot;
const stagedForUser = ({ isRoot, stagedByRoot }: Attacker): boolean => stagedByRoot && !isRoot;

/** What stands in everything that is planted, and nowhere else. */
export const secret = "planted-secret";

/** Calls that perl makes by their numbers. */
export const callNumbers: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  x64: {
    PTRACE: 101,
    PRCTL: 157,
    ADD_KEY: 248,
    KEYCTL: 250,
    NAME_TO_HANDLE: 303,
    OPEN_BY_HANDLE: 304,
    SENDMSG: 46,
    SENDMMSG: 307,
  },
  arm64: {
    PTRACE: 117,
    PRCTL: 167,
    ADD_KEY: 217,
    KEYCTL: 219,
    NAME_TO_HANDLE: 264,
    OPEN_BY_HANDLE: 265,
    SENDMSG: 211,
    SENDMMSG: 269,
  },
};

const says = (file: string): string => `grep -qs ${secret} "${file}"`;

/** Connects, asks, and looks into the answer. */
const answers = (socket: string): string =>
  `perl -MIO::Socket::INET -MIO::Socket::UNIX -e 'alarm 5; my $s = IO::Socket::${socket} or exit 1; syswrite $s, "GET /x HTTP/1.0\\r\\n\\r\\n"; while (sysread $s, $_, 4096, length) { exit 0 if /${secret}/ } exit 1'`;

/** The same where the first piece of data opens the connection, and nothing calls `connect`. */
const answersFastOpen = (send: string): string =>
  `perl -MSocket -e 'alarm 5; socket my $s, 2, 1, 0 or exit 1; my $a = pack_sockaddr_in $ENV{TCP}, INADDR_LOOPBACK; my $x = "GET /x HTTP/1.0\r\n\r\n"; my $i = pack "PQ", $x, length $x; my $m = pack "PLx4PQQQLx4Q", $a, length $a, $i, 1, 0, 0, 0, 0; ${send} or exit 1; while (sysread $s, $_, 4096, length) { exit 0 if /${secret}/ } exit 1'`;

const unixSocket = (path: string): string => answers(`UNIX->new(Peer => ${path})`);

/**
 * What a hostile agent tries, against what the test has planted. What it can plant in git's own files is tried where the
 * service's git runs afterwards: src/repos/{hostile,cache,diff,work-kept}.test.ts, src/lib/git.test.ts and
 * test/e2e/hostile-agent.test.ts.
 */
export const attacks: readonly Attack[] = [
  { name: "read another job's file", script: says("$OTHER/file"), isOpen: anyone },
  { name: "list another job's directory", script: 'ls "$OTHER/file"', isOpen: anyone },
  { name: "write into another job's worktree", script: 'echo x > "$OTHER/new"', isOpen: anyone },
  { name: "link to another job's file", script: `ln -s "$OTHER/file" link; ${says("link")}`, isOpen: anyone },
  { name: "name another job's file anew", script: 'ln "$OTHER/file" hard', isOpen: anyone },
  {
    name: "open another job's file by its handle",
    script: `perl -e 'opendir my $d, "." or exit 1; my $h = pack "H*", $ENV{HANDLE}; my $f = syscall $ENV{OPEN_BY_HANDLE} + 0, fileno $d, $h, 0; exit 1 if $f < 0; open my $in, "<&=", $f; exit <$in> !~ /${secret}/'`,
    isOpen: root,
  },
  { name: "change the mode of another job's file", script: 'chmod 640 "$OTHER/file"', isOpen: anyone },
  {
    name: "change the times of another job's file",
    script: '[ -e "$OTHER/file" ] && touch -c -d 2001-01-01 "$OTHER/file"',
    isOpen: anyone,
  },
  { name: "read the service's keys", script: says("$SERVICE/keys"), isOpen: anyone },
  { name: "read the machine's TLS key", script: says("/etc/ssl/private/key"), isOpen: anyone },
  {
    name: "read passwords that everybody may read in /etc",
    script: `cat /etc/default/svc /etc/apt/auth.conf /etc/apt/auth.conf.d/x /etc/apt/closed/key /etc/systemd/svc | grep -qs ${secret}`,
    isOpen: anyone,
  },
  {
    name: "write what is only readable",
    script: 'mount -o remount,bind,rw "$GIVEN"; echo x > "$GIVEN/new"',
    isOpen: anyone,
  },

  { name: "read the environment of a process", script: says("/proc/$VICTIM/environ"), isOpen: anyone },
  { name: "read the arguments of a process", script: says("/proc/$VICTIM/cmdline"), isOpen: anyone },
  {
    name: "go through the working directory of a process",
    script: says("/proc/$VICTIM/cwd/file"),
    isOpen: anyone,
  },
  {
    name: "go through the root directory of a process",
    script: says("/proc/$VICTIM/root$OTHER/file"),
    isOpen: anyone,
  },
  {
    name: "signal a process",
    script:
      'kill -USR1 "$VICTIM" || exit 1; for i in $(seq 100); do [ -e signalled ] && exit 0; sleep 0.1; done; exit 1',
    isOpen: anyone,
  },
  // PTRACE_SEIZE, which does not stop it.
  {
    name: "trace a process",
    script: "perl -e 'exit(0 != syscall $ENV{PTRACE} + 0, 0x4206, $ENV{VICTIM} + 0, 0, 0)'",
    isOpen: anyone,
  },
  { name: "limit a process", script: 'prlimit --pid "$VICTIM" --core=0:0', isOpen: anyone },
  { name: "choose the processors of a process", script: 'taskset -pc 0 "$VICTIM"', isOpen: anyone },
  { name: "choose how a process is scheduled", script: 'chrt --batch -p 0 "$VICTIM"', isOpen: anyone },
  { name: "lower the priority of a process", script: 'renice -n 19 -p "$VICTIM"', isOpen: anyone },
  { name: "lower the priority of a process at the disk", script: 'ionice -c 3 -p "$VICTIM"', isOpen: anyone },
  {
    name: "enter the namespaces of a process",
    script: 'nsenter --target "$VICTIM" --mount true',
    isOpen: root,
  },
  { name: "read a file in shared memory", script: says("/dev/shm/planted"), isOpen: anyone },
  {
    name: "read shared memory",
    script: `perl -e 'my $id = shmget $ENV{SHARED_MEMORY}, 64, 0 // exit 1; shmread $id, my $text, 0, 64 or exit 1; exit $text !~ /${secret}/'`,
    isOpen: anyone,
  },
  {
    name: "read a key of the session's keyring",
    script: `perl -e 'my ($kind, $name) = qw(user planted); my $id = syscall $ENV{KEYCTL} + 0, 10, -3, $kind, $name, 0; my $text = " " x 64; exit 1 if $id < 0 or syscall($ENV{KEYCTL} + 0, 11, $id, $text, 64) < 0; exit $text !~ /${secret}/'`,
    isOpen: anyone,
  },

  { name: "mount a file system", script: "mkdir m && mount -t tmpfs none m && umount m", isOpen: root },
  { name: "make a user namespace", script: "unshare --user true", isOpen: anyone },
  {
    name: "make a device",
    script: "mknod -m 666 made c 1 5 && [ $(head -c 9 made | wc -c) = 9 ]",
    isOpen: root,
  },
  {
    name: "read a device that lies in the worktree",
    script: "[ $(head -c 9 zero | wc -c) = 9 ]",
    isOpen: staged,
  },
  {
    name: "find devices of the machine",
    script:
      'ls /dev | grep -vxE "console|core|fd|full|null|ptmx|pts|random|shm|stderr|stdin|stdout|tty|urandom|zero"',
    isOpen: null,
  },
  {
    name: "become root by a setuid program",
    script: '[ "$(id -u)" != 0 ] && [ "$("$GIVEN/setuid" -u)" = 0 ]',
    isOpen: stagedForUser,
  },
  // Opened, never written.
  {
    name: "choose the program that takes core dumps",
    script: "perl -MFcntl -e 'sysopen my $f, q(/proc/sys/kernel/core_pattern), O_WRONLY or exit 1'",
    isOpen: null,
  },

  {
    name: "read lists of the kernel's memory",
    script: "head -c 8 /proc/vmallocinfo | grep -q .",
    isOpen: root,
  },
  {
    name: "write what watches the machine's load",
    script: "perl -MFcntl -e 'sysopen my $f, q(/proc/pressure/cpu), O_WRONLY or exit 1'",
    isOpen: null,
  },

  {
    name: "connect to a TCP port",
    script: answers("INET->new(PeerAddr => qq(127.0.0.1:$ENV{TCP}))"),
    isOpen: anyone,
  },
  {
    name: "connect to a TCP port through the proxy",
    script: `curl -s --noproxy "" --retry 30 --retry-delay 1 --retry-connrefused "http://127.0.0.1:$TCP/" | grep -q ${secret}`,
    isOpen: anyone,
  },
  {
    name: "have the door connect to the machine under another name",
    script: `for host in localhost 127.1 2130706433 [::1] [::ffff:127.0.0.1] 0.0.0.0 "$(hostname)"; do curl -s --noproxy "" "http://$host:$TCP/" | grep -q ${secret} && exit 0; done; exit 1`,
    isOpen: anyone,
  },
  {
    name: "use the model's credential for what is no message",
    script: `for request in "GET /v1/files" "DELETE /v1/files/f" "GET /v1/messages/batches/b/results" "POST /v1/messages/batches" "PUT /v1/messages"; do curl -s $SOCKET -X \${request% *} -H "x-api-key: $WORD" "$ORIGIN\${request#* }" | grep -q ${secret} && exit 0; done; exit 1`,
    isOpen: null,
  },
  {
    name: "connect to a TCP port by fast open",
    script: answersFastOpen("send($s, $x, 0x20000000, $a)"),
    isOpen: anyone,
  },
  {
    name: "connect to a TCP port by fast open of a message",
    script: answersFastOpen("syscall($ENV{SENDMSG} + 0, fileno $s, $m, 0x20000000) > 0"),
    isOpen: anyone,
  },
  {
    name: "connect to a TCP port by fast open of several messages",
    script: answersFastOpen("syscall($ENV{SENDMMSG} + 0, fileno $s, $m, 1, 0x20000000) > 0"),
    isOpen: anyone,
  },
  {
    name: "exchange datagrams",
    script: `perl -MIO::Socket::INET -e 'alarm 5; my $s = IO::Socket::INET->new(Proto => "udp", PeerAddr => qq(127.0.0.1:$ENV{UDP})) or exit 1; $s->send("x"); $s->recv($_, 4096); exit !/${secret}/'`,
    isOpen: anyone,
  },
  {
    name: "resolve a name",
    script: "getent hosts planted.test | grep -q 192.0.2.7",
    isOpen: anyone,
  },
  {
    name: "listen to the network's packets",
    script: "perl -e 'socket my $s, 17, 3, 0x300 or exit 1'",
    isOpen: root,
  },
  // Only made: with vsock it could connect to the host of a virtual machine.
  {
    name: "make a socket that no namespace holds",
    script: "perl -e 'socket my $s, 40, 1, 0 or exit 1'",
    isOpen: null,
  },
  {
    name: "connect to an abstract socket",
    script: unixSocket('"\\0$ENV{ABSTRACT}"'),
    isOpen: anyone,
  },
  { name: "connect to the docker socket", script: unixSocket('"/run/docker.sock"'), isOpen: anyone },
  { name: "connect to D-Bus", script: unixSocket('"/run/dbus/system_bus_socket"'), isOpen: anyone },
  { name: "use the door of another run", script: unixSocket("$ENV{DOOR}"), isOpen: anyone },
  {
    name: "plant a cron table",
    script: 'echo "* * * * * true" > /var/spool/cron/crontabs/planted',
    isOpen: anyone,
  },
];
