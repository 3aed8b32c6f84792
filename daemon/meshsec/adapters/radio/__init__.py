"""Radios: nl80211, the switches of rfkill, and wpa_supplicant."""
