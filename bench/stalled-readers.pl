#!/usr/bin/perl
# `stalled-readers.pl PORT COUNT PROMPT`: asks for COUNT streamed answers (`%d` in PROMPT is the number of the request) and
# reads nothing. A line `N PIECES PAD` on standard input: the first N read to the end and are looked at; prints how many of
# them had every piece of bench/steady-agent.pl in its order and the end of the stream. Segments as small as on a real
# network: over loopback's own the kernel would hold megabytes for a reader that reads nothing.
use strict;
use warnings;
use Socket qw(:DEFAULT IPPROTO_TCP TCP_MAXSEG SO_RCVBUF);

my ($port, $count, $prompt) = @ARGV;
my @sockets;
for my $n (0 .. $count - 1) {
    socket(my $socket, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
    setsockopt($socket, IPPROTO_TCP, TCP_MAXSEG, pack('i', 1400)) or die "TCP_MAXSEG: $!";
    setsockopt($socket, SOL_SOCKET, SO_RCVBUF, pack('i', 16384)) or die "SO_RCVBUF: $!";
    connect($socket, sockaddr_in($port, inet_aton('127.0.0.1'))) or die "connect: $!";
    my $content = sprintf($prompt, $n);
    my $body = qq({"model":"default","stream":true,"metadata":{"live_text":"true"},"messages":[{"role":"user","content":"$content"}]});
    my $request = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: "
        . length($body) . "\r\n\r\n$body";
    syswrite($socket, $request) == length $request or die "write: $!";
    push @sockets, $socket;
}
$| = 1;
print "asked\n";

while (defined(my $line = <STDIN>)) {
    my ($readers, $pieces, $pad) = split ' ', $line;
    my $complete = 0;
    for my $socket (@sockets[0 .. $readers - 1]) {
        my $answer = '';
        1 while sysread($socket, $answer, 65536, length $answer);
        $complete += 1 if is_complete($answer, $pieces, $pad);
    }
    print "$complete\n";
}

sub is_complete {
    my ($answer, $pieces, $pad) = @_;
    my $at = index($answer, "\r\n\r\n") + 4;
    my $body = '';
    while (substr($answer, $at, 20) =~ /^([0-9a-f]+)\r\n/i) {
        my $size = hex $1;
        $at += length($1) + 2;
        last if $size == 0;
        $body .= substr($answer, $at, $size);
        $at += $size + 2;
    }
    my $next = 0;
    while ($body =~ /"content":"(\d+):[\d.]+:(x*) "/g) {
        return 0 if $1 != $next || length($2) != $pad;
        $next += 1;
    }
    return $next == $pieces && $body =~ /"finish_reason":"stop".*\n\ndata: \[DONE\]\n\n\z/s;
}
