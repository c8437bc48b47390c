/** The mark: a vessel between two bollards, read as a "U" with the water line across. */
export function Logo({ size = 24 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="8" fill="var(--b-accent)" />
      <path
        d="M8 9v8.5a8 8 0 0 0 16 0V9"
        fill="none"
        stroke="var(--b-surface)"
        strokeWidth="3"
        strokeLinecap="round"
      />
      <path d="M12.5 15.5h7" stroke="var(--b-surface)" strokeWidth="3" strokeLinecap="round" />
    </svg>
  );
}
