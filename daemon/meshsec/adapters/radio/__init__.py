"""Radios: nl80211, rfkill's switches and wpa_supplicant."""
