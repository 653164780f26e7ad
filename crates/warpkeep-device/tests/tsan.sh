#!/usr/bin/env bash
# Runs kernels under ThreadSanitizer: those with a planted race must be reported, the others must not.
# Usage: tests/tsan.sh DIRECTORY    (what is built goes there)
# Exits with 0 if all is as it must be, 77 if there is no compiler with a working ThreadSanitizer, and 1 otherwise.
set -euo pipefail
out="$(cd "${1:?usage: tests/tsan.sh DIRECTORY}" && pwd)"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
compiler="${CXX:-c++}"

# A compiler may have the flag and not the library, and a kernel may place memory where the sanitizer cannot use it.
printf 'int main() { return 0; }\n' >"$out/trial.cpp"
if ! "$compiler" -fsanitize=thread "$out/trial.cpp" -o "$out/trial" >"$out/trial.log" 2>&1 || ! "$out/trial" >>"$out/trial.log" 2>&1; then
    echo "SKIPPED: $compiler has no working ThreadSanitizer: $(head -n 1 "$out/trial.log")"
    exit 77
fi

# The simulator is built without the sanitizer: its own switches and counters must not look like synchronisation.
flags=(-std=c++17 -O1 -g -Iinclude)
printf '%s\n' simulator/*.cpp | xargs -P 2 -I{} bash -c 'out=$1 source=$2; shift 2; "$@" -c "$source" -o "$out/$(basename "$source" .cpp).o"' \
    _ "$out" {} "$compiler" "${flags[@]}" -DWK_SIM_TSAN
"$compiler" "${flags[@]}" -fsanitize=thread tests/kernels/tsan.cpp "$out"/*.o -o "$out/tsan" -pthread

export TSAN_OPTIONS="exitcode=66 halt_on_error=1"
wrong=0
for kernel in clean_release clean_fence clean_sync clean_table; do
    if ! timeout 120 "$out/tsan" "$kernel" >"$out/$kernel.log" 2>&1; then
        echo "$kernel: reported, or failed, though nothing is wrong with it:"
        head -n 40 "$out/$kernel.log"
        wrong=1
    fi
done
caught=0
races=(race_stores race_no_fence race_in_warp race_shared)
for kernel in "${races[@]}"; do
    status=0
    timeout 120 "$out/tsan" "$kernel" >"$out/$kernel.log" 2>&1 || status=$?
    if [ "$status" -eq 66 ] && grep -q 'WARNING: ThreadSanitizer: data race' "$out/$kernel.log"; then
        caught=$((caught + 1))
    else
        echo "$kernel: the race was not reported (exit status $status):"
        head -n 40 "$out/$kernel.log"
        wrong=1
    fi
done
echo "tsan: $caught of ${#races[@]} caught: planted races"
exit "$wrong"
