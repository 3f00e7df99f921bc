#!/usr/bin/perl
# Speaks the agent CLI's protocol in a few megabytes and next to no processor time, so that hundreds fit on one machine.
# A message `steady count=N rate=R pad=P gate=FILE at=G` is answered with N pieces `n:ms:xxx… `: their number, the time of
# their writing on the machine's monotonic clock, P characters; R a second (0: as fast as they are taken), in blocks of 64.
# After G pieces it adds a byte to FILE.at and waits for FILE (with then=H after H pieces to FILE.then, waiting for FILE.go); after the last one it adds a byte to FILE.end.
use strict;
use warnings;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC sleep);

if (grep { $_ eq '--version' } @ARGV) { print "0.0.0\n"; exit 0 }

my $session = '';
for my $at (0 .. $#ARGV - 1) { $session = $ARGV[$at + 1] if $ARGV[$at] eq '--session-id' }
my $common = qq("parent_tool_use_id":null,"session_id":"$session","uuid":"00000000-0000-4000-8000-000000000000");

sub say_line {
    my ($line) = @_;
    $line .= "\n";
    my $done = 0;
    while ($done < length $line) { $done += syswrite(STDOUT, $line, length($line) - $done, $done) // exit 0 }
}
sub stream { say_line(qq({"type":"stream_event","event":{$_[0]},$common})) }

sub note {
    open(my $file, '>>', $_[0]) or die "$_[0]: $!";
    syswrite($file, '.');
}

my $block = '';
my $open = 0;

sub open_block {
    stream(q("type":"content_block_start","index":0,"content_block":{"type":"text","text":""}));
    ($block, $open) = ('', 1);
}
sub close_block {
    return unless $open;
    say_line(qq({"type":"assistant","message":{"id":"msg","role":"assistant","model":"steady","content":[{"type":"text","text":"$block"}]},$common}));
    stream(q("type":"content_block_stop","index":0));
    $open = 0;
}

# Also as an argument, as a proxy gives it.
my @given = grep { /steady count=/ } @ARGV;
while (defined(my $message = shift(@given) // <STDIN>)) {
    next unless $message =~ /.*steady count=(\d+) rate=(\d+) pad=(\d+) gate=(\S+) at=(\d+)(?: then=(\d+))?/;
    my ($count, $rate, $pad, $gate, $at, $then) = ($1, $2, 'x' x $3, $4, $5, $6 // -1);
    say_line(qq({"type":"system","subtype":"init","model":"steady","claude_code_version":"0.0.0","tools":[],$common}));
    stream(q("type":"message_start","message":{"id":"msg"}));
    my ($begun, $from) = (clock_gettime(CLOCK_MONOTONIC), 0);
    for my $n (0 .. $count - 1) {
        if ($n == $then) {
            note("$gate.then");
            sleep(0.1) until -e "$gate.go";
        }
        if ($n == $at) {
            note("$gate.at");
            sleep(0.1) until -e $gate;
            # Not all in step.
            sleep(rand(1 / $rate)) if $rate;
            ($begun, $from) = (clock_gettime(CLOCK_MONOTONIC), $n);
        }
        if ($rate) {
            my $wait = $begun + ($n - $from) / $rate - clock_gettime(CLOCK_MONOTONIC);
            sleep($wait) if $wait > 0;
        }
        if ($n % 64 == 0) { close_block(); open_block() }
        my $text = sprintf('%d:%.3f:%s ', $n, 1000 * clock_gettime(CLOCK_MONOTONIC), $pad);
        $block .= $text;
        stream(qq("type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"$text"}));
    }
    note("$gate.end");
    close_block();
    stream(q("type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}));
    stream(q("type":"message_stop"));
    say_line(qq({"type":"result","subtype":"success","is_error":false,"result":"done","duration_ms":1,"num_turns":1,"total_cost_usd":0.01,"usage":{"input_tokens":1,"output_tokens":1},$common}));
}
